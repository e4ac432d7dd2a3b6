import json
import math

import pytest

from mixseg.runs.log import Log


def test_what_is_no_number_is_null_in_the_log(tmp_path):
    log = Log(tmp_path / "log.jsonl", keep_until=0)
    log.write({"step": 1, "score": math.nan, "watch": {"shares": [0.5, math.inf]}})
    text = (tmp_path / "log.jsonl").read_text()
    assert json.loads(text, parse_constant=pytest.fail) == {"step": 1, "score": None, "watch": {"shares": [0.5, None]}}
