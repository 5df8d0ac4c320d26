"""A form over the limit is refused in one sentence, also where no header announces its length."""

import http.client
from pathlib import Path

from tests.safety.local_servers import ended, started

MIB = 2**20


def test_a_form_of_unannounced_length_is_cut_off_with_one_sentence(
    tmp_path: Path,
) -> None:
    (tmp_path / "runs").mkdir()
    with started("serve", str(tmp_path / "runs"), "--port", "0") as server:
        connection = http.client.HTTPConnection(server.host, server.port, timeout=20)
        form = (b"x" * MIB for _ in range(5))
        content_type = {"content-type": "application/x-www-form-urlencoded"}
        connection.request("POST", "/ask", form, {**server.bearer, **content_type})
        response = connection.getresponse()
        assert response.status == 413
        assert response.read().decode() == "That is more than this form takes."
        connection.close()
        _, _, stderr = ended(server)
        assert "ERROR" not in stderr
