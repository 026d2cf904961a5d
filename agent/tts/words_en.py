"""The words that `agent.tts.spoken_en` puts for short forms."""

_MONTHS = [
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
]
MONTHS = {short: name for name in _MONTHS for short in (name, name[:3])} | {"Sept": "September"}

# Sign or code -> one, many, one hundredth, many hundredths.
_DOLLAR = ("dollar", "dollars", "cent", "cents")
_EURO = ("euro", "euros", "cent", "cents")
_POUND = ("pound", "pounds", "penny", "pence")
_YEN = ("yen", "yen", "", "")
CURRENCIES = {
    "$": _DOLLAR,
    "US$": ("US dollar", "US dollars", "cent", "cents"),
    "USD": ("US dollar", "US dollars", "cent", "cents"),
    "€": _EURO,
    "EUR": _EURO,
    "£": _POUND,
    "GBP": _POUND,
    "¥": _YEN,
    "JPY": _YEN,
    "₩": ("won", "won", "", ""),
    "₹": ("rupee", "rupees", "", ""),
}

# Written unit -> one, many. Letters that are also words ("in", "a") are left out.
UNITS = {
    "km": ("kilometer", "kilometers"),
    "m": ("meter", "meters"),
    "cm": ("centimeter", "centimeters"),
    "mm": ("millimeter", "millimeters"),
    "km²": ("square kilometer", "square kilometers"),
    "m²": ("square meter", "square meters"),
    "m³": ("cubic meter", "cubic meters"),
    "mi": ("mile", "miles"),
    "ft": ("foot", "feet"),
    "yd": ("yard", "yards"),
    "kg": ("kilogram", "kilograms"),
    "g": ("gram", "grams"),
    "mg": ("milligram", "milligrams"),
    "lb": ("pound", "pounds"),
    "lbs": ("pound", "pounds"),
    "oz": ("ounce", "ounces"),
    "l": ("liter", "liters"),
    "L": ("liter", "liters"),
    "ml": ("milliliter", "milliliters"),
    "mL": ("milliliter", "milliliters"),
    "h": ("hour", "hours"),
    "hr": ("hour", "hours"),
    "hrs": ("hour", "hours"),
    "min": ("minute", "minutes"),
    "mins": ("minute", "minutes"),
    "s": ("second", "seconds"),
    "sec": ("second", "seconds"),
    "secs": ("second", "seconds"),
    "ms": ("millisecond", "milliseconds"),
    "mph": ("mile per hour", "miles per hour"),
    "Hz": ("hertz", "hertz"),
    "kHz": ("kilohertz", "kilohertz"),
    "MHz": ("megahertz", "megahertz"),
    "GHz": ("gigahertz", "gigahertz"),
    "W": ("watt", "watts"),
    "kW": ("kilowatt", "kilowatts"),
    "kWh": ("kilowatt hour", "kilowatt hours"),
    "V": ("volt", "volts"),
    "KB": ("kilobyte", "kilobytes"),
    "kB": ("kilobyte", "kilobytes"),
    "MB": ("megabyte", "megabytes"),
    "GB": ("gigabyte", "gigabytes"),
    "TB": ("terabyte", "terabytes"),
    "kcal": ("kilocalorie", "kilocalories"),
    "°C": ("degree Celsius", "degrees Celsius"),
    "℃": ("degree Celsius", "degrees Celsius"),
    "°F": ("degree Fahrenheit", "degrees Fahrenheit"),
    "℉": ("degree Fahrenheit", "degrees Fahrenheit"),
    "°": ("degree", "degrees"),
}

ABBREVIATIONS = {
    "dr.": "Doctor",
    "mr.": "Mister",
    "mrs.": "Missus",
    "ms.": "Miz",
    "prof.": "Professor",
    "sr.": "Senior",
    "jr.": "Junior",
    "e.g.": "for example",
    "i.e.": "that is",
    "etc.": "et cetera",
    "vs.": "versus",
    "approx.": "approximately",
    "dept.": "department",
    "est.": "estimated",
    "inc.": "incorporated",
    "ltd.": "limited",
    "ph.d.": "PhD",
    "fig.": "figure",
    "vol.": "volume",
    "ave.": "avenue",
    "blvd.": "boulevard",
    "mt.": "Mount",
}

# Denominator -> one, many; the others are ordinals.
FRACTIONS = {2: ("half", "halves"), 3: ("third", "thirds"), 4: ("quarter", "quarters")}
VULGAR_FRACTIONS = {
    "½": "1/2",
    "⅓": "1/3",
    "⅔": "2/3",
    "¼": "1/4",
    "¾": "3/4",
    "⅕": "1/5",
    "⅖": "2/5",
    "⅗": "3/5",
    "⅘": "4/5",
    "⅙": "1/6",
    "⅛": "1/8",
    "⅜": "3/8",
    "⅝": "5/8",
    "⅞": "7/8",
}

# Words before which and names after which a Roman numeral can be nothing else.
COUNTED_BY_ROMAN = (
    "Chapter|Part|Act|Scene|Book|Volume|Section|Article|Phase|Stage|Level|Type|Class|Grade|Appendix|Figure|Table|Title|"
    "Super Bowl|World War"
)
REIGNED_BY_ROMAN = (
    *(
        "Henry",
        "Louis",
        "Elizabeth",
        "George",
        "Charles",
        "Edward",
        "William",
        "Richard",
        "James",
        "Philip",
        "Frederick",
    ),
    *("Napoleon", "Nicholas", "Alexander", "Catherine", "Peter", "Ivan", "Ramses", "Benedict", "Pius", "Paul", "John"),
)

# Pattern -> word, in this order: the longer signs first.
SIGNS = (
    (r"<=|≤", "is at most"),
    (r">=|≥", "is at least"),
    (r"->|=>|→|⇒", "to"),
    (r"!=|≠", "is not equal to"),
    (r"≈", "is about"),
    (r"={1,3}", "equals"),
    (r"\+\+", "plus plus"),
    (r"\+", "plus"),
    (r"±", "plus or minus"),
    (r"−", "minus"),
    (r"×|·", "times"),
    (r"÷", "divided by"),
    (r"√", "the square root of"),
    (r"∞", "infinity"),
    (r"π", "pi"),
    (r"²|\^2\b", "squared"),
    (r"³|\^3\b", "cubed"),
    (r"(?<=[\w)])\^(?=[\w(])", "to the power of"),
    (r"~(?=\d)", "about"),
    (r"(?<=[\w\s])<(?=[\w\s])", "is less than"),
    (r"(?<=[\w\s])>(?=[\w\s])", "is greater than"),
    (r"°", "degrees"),
    (r"&", "and"),
    (r"@", "at"),
    (r"%", "percent"),
    (r"§", "section"),
)

TOP_DOMAINS = "com|org|net|io|dev|edu|gov|ai|app|info|co\\.uk|uk|de|fr|jp|cn|kr|eu"
FILE_KINDS = "py|js|ts|txt|md|json|html|css|csv|pdf|png|jpe?g|wav|mp3|toml|ya?ml|sh|cpp|rs|java|zip|exe"
