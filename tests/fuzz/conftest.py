from tests.end_to_end.conftest import play

__all__ = ["play"]
