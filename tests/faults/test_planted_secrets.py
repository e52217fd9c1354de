import base64

from tests.faults.planted_secrets import search


def test_a_secret_is_found_plain_and_encoded(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.log").write_text("key=planted-4711\n")
    (tmp_path / "b.bin").write_bytes(b"\x00" + base64.b64encode(b"planted-4712"))
    (tmp_path / "c.txt").write_text("nothing")
    count, found = search([tmp_path], {"A": "planted-4711", "B": "planted-4712", "C": "planted-4713"})
    assert count == 3
    assert sorted(found) == [f"A in {tmp_path}/logs/a.log", f"B in {tmp_path}/b.bin"]
