"""Files built to exhaust the reader: refused at once, at no cost, and without reaching out."""

import subprocess
import sys
from pathlib import Path

import pytest

from archqa.errors import InputError
from archqa.tasks import load_cases

LEVELS = "".join(
    f'<!ENTITY l{n} "{f"&l{n - 1};" * 10 if n else "lol"}">' for n in range(12)
)
LONG = f'<!ENTITY x "{"x" * 100_000}">'
ATTACKS = {
    "billion laughs": f"<!DOCTYPE annotations [{LEVELS}]><annotations><case id='1'>&l11;</case></annotations>",
    "in an attribute": f"<!DOCTYPE annotations [{LEVELS}]><annotations><case id='&l11;'/></annotations>",
    "quadratic": f"<!DOCTYPE annotations [{LONG}]><annotations>{'&x;' * 100_000}</annotations>",
    "parameter entities": '<!DOCTYPE a [<!ENTITY % p SYSTEM "file:///etc/passwd"> %p;]><a/>',
    "file": '<!DOCTYPE a [<!ENTITY f SYSTEM "file:///etc/passwd">]><a><case id="1">&f;</case></a>',
    "network": '<?xml version="1.0"?>\n<!-- x -->\n<!DOCTYPE a SYSTEM "http://127.0.0.1:9/a.dtd"><a/>',
}
# A process of its own, for a peak that is only this file's. VmHWM, because ru_maxrss begins at the parent's size.
MEASURE = """
import re, sys, time
from pathlib import Path
from archqa.tasks import load_cases
from archqa.errors import InputError
start = time.process_time()
try:
    load_cases(sys.argv[1])
except InputError as error:
    assert "DOCTYPE" in str(error), error
    print(time.process_time() - start, re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
"""


@pytest.mark.parametrize("attack", ATTACKS)
def test_entities_and_dtds_are_refused(tmp_path: Path, attack: str) -> None:
    path = tmp_path / "bomb.xml"
    path.write_text(ATTACKS[attack])
    with pytest.raises(InputError, match="DOCTYPE") as caught:
        load_cases(path)
    assert "root:" not in str(caught.value)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("attack", ["billion laughs", "in an attribute", "quadratic"])
def test_an_entity_bomb_is_refused_in_a_processor_second_and_100_megabytes(
    tmp_path: Path, attack: str
) -> None:
    path = tmp_path / "bomb.xml"
    path.write_text(ATTACKS[attack])
    command = [sys.executable, "-c", MEASURE, str(path)]
    root = Path(__file__).resolve().parents[3]
    process = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=60, cwd=root
    )
    seconds, kilobytes = map(float, process.stdout.split())

    assert seconds < 1
    assert kilobytes < 100_000


def test_the_word_doctype_in_a_note_is_only_a_word(tmp_path: Path) -> None:
    path = tmp_path / "cases.xml"
    path.write_text(
        "<!-- <!DOCTYPE --><annotations><case id='1'>"
        "<note_excerpt><![CDATA[<!DOCTYPE x [<!ENTITY]]></note_excerpt></case></annotations>"
    )

    assert load_cases(path).cases[0].note_excerpt == "<!DOCTYPE x [<!ENTITY"
