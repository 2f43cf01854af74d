from tests.rules.conftest import run, sound_result, sound_run

__all__ = ["run", "sound_result", "sound_run"]
