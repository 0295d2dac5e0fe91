from __future__ import annotations

import json

import pytest

GLOBAL = "# @package _global_\n"


@pytest.fixture
def conf(own_lab):
    """A conf folder beside the script of the laboratory."""
    files = {
        "train.yaml": "defaults: [_self_]\noptim: {lr: 0.003, wd: 0.1}\n",
        "exp/exp01.yaml": f"{GLOBAL}optim: {{lr: 0.01}}\n",
        "exp/typo.yaml": f"{GLOBAL}optim: {{lrr: 0.01}}\n",
    }
    for name, text in files.items():
        path = own_lab.top / "conf" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return own_lab.top / "conf"


def test_doctor(here):
    done = here("doctor")
    assert done.code == 0, done.out
    assert done.err == ""
    names = [line.split()[1] for line in done.out.splitlines() if line and line[0] in "on-"]
    assert names[:3] == ["python", "expdb", "torch"]
    assert {"git", "store", "index", "clock", "terminal", "gpu"} <= set(names)
    assert done.out.splitlines()[-1] == "no problem"
    data = json.loads(here("doctor", "--json").out)
    assert data["schema_version"] == 1
    assert [check["name"] for check in data["checks"]][:2] == ["python", "expdb"]


def test_a_problem_is_exit_code_1(own_lab, mine):
    (own_lab.top / "runs/.expdb/store.json").write_text("{")
    done = mine("doctor")
    assert done.code == 1
    assert "problem  store        store.json is not JSON" in done.out
    assert done.out.splitlines()[-1] == "1 problem"


def test_doctor_without_a_store(here, tmp_path):
    done = here("-C", str(tmp_path), "doctor")
    assert done.code == 0
    assert "no store above this folder" in done.out


def test_conf_and_one_experiment(conf, mine):
    done = mine("doctor", "--conf")
    assert done.code == 0, done.out
    assert done.out.startswith("conf/exp, 2 files, base conf/train.yaml\n")
    assert "ADDS optim.lrr: a typo of optim.lr?" in done.out
    assert done.err == "where:     expdb doctor --conf typo\n"
    done = mine("doctor", "--conf", "exp01")
    assert done.code == 0
    assert ", base + 1, missing" in done.out.splitlines()[0]
    assert "conf/exp/exp01.yaml:2" in done.out
    assert "was 0.003 in conf/train.yaml:2" in done.out
    keys = json.loads(mine("doctor", "--conf", "exp01", "--json").out)["keys"]
    assert keys[0]["was"] == {"value": 0.003, "from": "conf/train.yaml:2"}
    (conf / "exp/exp01.yaml").write_text("optim: {lr: 1}\n")
    assert mine("doctor", "--conf").code == 1
    assert mine("doctor", "--conf", "exp01").code == 2
    assert mine("doctor", "--conf", "exp1").code == 3
    assert json.loads(mine("doctor", "--conf", "--json").out)["num_to_fix"] == 1


def test_what_makes_no_sense(here):
    assert here("doctor", "exp01").code == 2
    done = here("doctor", "--conf")
    assert done.code == 3
    assert done.err.startswith("error: no conf/train.yaml here\n")
