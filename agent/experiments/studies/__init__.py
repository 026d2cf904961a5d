"""The studies, one file each: what is measured for them. What follows from it stands in `profiling.studies`."""
