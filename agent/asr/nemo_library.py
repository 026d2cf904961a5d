"""NeMo, imported without a word: whoever needs a name of it imports it from here."""

from agent.quiet import quiet

with quiet():
    from nemo.collections.asr.models import ASRModel, EncDecRNNTBPEModel
    from nemo.collections.asr.modules import AudioToMelSpectrogramPreprocessor, ConformerEncoder
    from nemo.collections.asr.parts.submodules.rnnt_decoding import RNNTBPEDecoding
    from nemo.core.connectors.save_restore_connector import SaveRestoreConnector
    from nemo.utils import logging as nemo_logging
    from nemo.utils.model_utils import import_class_by_path

    nemo_logging.remove_stream_handlers()
    nemo_logging.setLevel(nemo_logging.CRITICAL)  # it keeps in memory what it logs
    nemo_logging.captureWarnings(False)

__all__ = [
    "ASRModel",
    "AudioToMelSpectrogramPreprocessor",
    "ConformerEncoder",
    "EncDecRNNTBPEModel",
    "RNNTBPEDecoding",
    "SaveRestoreConnector",
    "import_class_by_path",
    "quiet",
]
