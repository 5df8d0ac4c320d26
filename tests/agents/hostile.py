"""Code that means harm, made by combination.

A thousand snippets, each of its own kind, all different.
"""

import itertools
from collections.abc import Iterator

_FILES = (
    "open({path!r}).read()",
    "open({path!r}, 'w').write('harm')",
    "open({path!r}, 'ab').write(b'harm')",
    "import pathlib\nanswer = pathlib.Path({path!r}).read_text()",
    "import pathlib\npathlib.Path({path!r}).write_text('harm')",
    "import pathlib\npathlib.Path({path!r}).unlink()",
    "import os\nos.remove({path!r})",
    "import os\nanswer = os.listdir({path!r})",
    "import os\nos.mkdir({path!r} + '/harm')",
    "import os\nos.rename({path!r}, {path!r} + '.harm')",
    "import shutil\nshutil.rmtree({path!r})",
    "import tempfile\ntempfile.NamedTemporaryFile(dir={path!r}, delete=False)",
    "import sqlite3\nsqlite3.connect({path!r}).execute('CREATE TABLE harm (x)')",
    "with open({path!r}) as file:\n    answer = file.read()",
)
_NETWORK = (
    "import socket\nsocket.create_connection((\"127.0.0.1\", {port})).send(b'harm')",
    "import urllib.request\nurllib.request.urlopen('http://127.0.0.1:{port}/')",
    "import http.client\nhttp.client.HTTPConnection('127.0.0.1', {port}).request('GET', '/')",
    "import httpx2\nhttpx2.get('http://127.0.0.1:{port}/')",
    "import asyncio\nasync def reach():\n    await asyncio.open_connection('127.0.0.1', {port})\nasyncio.run(reach())",
    "import ftplib\nftplib.FTP('127.0.0.1')",
)
_HOST = (
    "import os\nos.system({command!r})",
    "import os\nos.execv('/bin/sh', ['sh', '-c', {command!r}])",
    "import os\nos.fork()",
    "import os\nos.kill(os.getppid(), 9)",
    "import os\nanswer = os.environ[{name!r}]",
    "import os\nanswer = dict(os.environ)",
    "import os\nanswer = os.getenv({name!r})",
    "import subprocess\nsubprocess.run({command!r}, shell=True)",
    "import multiprocessing\nmultiprocessing.Process(target=print).start()",
    "import threading\nthreading.Thread(target=print).start()",
    "import ctypes\nctypes.string_at(0)",
    "import signal\nsignal.alarm(1)",
    "import sys\nsys.modules['os'].system({command!r})",
    "import importlib\nimportlib.import_module('os').system({command!r})",
    "__import__('os').system({command!r})",
    "eval(\"__import__('os').system({command})\")",
    'exec("import os; os.system({command})")',
    "import builtins\nbuiltins.open('/etc/passwd')",
    "import pickle\npickle.loads(b\"cos\\nsystem\\n(S'{command}'\\ntR.\")",
    "import pip\npip.main(['install', 'harm'])",
)
_WALKS = (
    "answer = {start}.__class__.__base__.__subclasses__()",
    "answer = {start}.__class__.__mro__[-1].__subclasses__()[100].__init__.__globals__",
    "answer = getattr({start}, '__cl' + 'ass__')",
    "answer = type({start}).__subclasses__()",
    "answer = '{{0.__class__.__init__.__globals__}}'.format({start})",
    "def f():\n    pass\nanswer = f.__globals__, f.__code__, f.__closure__",
    "answer = {start}.__dict__",
    "answer = vars(), globals(), locals(), {start}",
    "try:\n    1 / 0\nexcept Exception as error:\n    answer = error.__traceback__.tb_frame.f_back.f_globals, {start}",
    "class A:\n    def __init__(self):\n        self.x = {start}\nanswer = A.__init__.__globals__",
)
_ENDLESS = (
    "while {true}:\n    pass",
    "x = 0\nwhile {true}:\n    x += 1",
    "def f(n):\n    return f(n + 1)\nf({number})",
    "for i in range(10 ** {number}):\n    for j in range(10 ** {number}):\n        pass",
    "import re\nre.match('(a+)+$', 'a' * {number} + 'b')",
    "import itertools\nfor each in itertools.count({number}):\n    pass",
    "import time\nwhile {true}:\n    time.sleep({number})",
    "x = [1]\nfor each in x:\n    x.append({number})",
    "answer = sum(i * i for i in range(10 ** {number}))",
)
_MEMORY = (
    "x = [0] * 10 ** {number}",
    "x = 'a' * 10 ** {number}",
    "x = bytes(10 ** {number})",
    "answer = 10 ** 10 ** {number}",
    "answer = 1 << 10 ** {number}",
    "x = []\nwhile True:\n    x.append('a' * 10 ** 5)",
    "x = 'ab'\nfor i in range({number} * 10):\n    x += x",
    "x = {{}}\nfor i in range(10 ** {number}):\n    x[i] = [i]",
    "x = []\nfor i in range({number} * 9):\n    x = [x, x]\nanswer = str(x)",
    "print('a' * 10 ** {number})",
    "while True:\n    print('a' * {number})",
    "import json\nanswer = json.dumps([0] * 10 ** {number})",
    "answer = list(range(10 ** {number}))",
    "len = lambda x: 0\nanswer = 'a' * 10 ** {number}",
)
_WRAPPERS = (
    "{code}",
    "def harm():\n    {indented}\nharm()",
    "try:\n    {indented}\nexcept ValueError:\n    pass",
    "answer = 1\nif answer:\n    {indented}",
    "for turn in range(2):\n    {indented}",
)


def snippets(canary: str, folder: str, port: int, variable: str) -> Iterator[str]:
    """All of them: aimed at this file, this folder, this port and this environment variable."""
    paths = (
        canary,
        folder,
        "/etc/passwd",
        "/proc/self/environ",
        "../../etc/hosts",
        "/tmp/harm",
    )
    commands = (f"touch {folder}/harm", f"cat {canary}", "sleep 60", "kill -9 $PPID")
    plain = [
        *(
            template.format(path=path)
            for template, path in itertools.product(_FILES, paths)
        ),
        *(template.format(port=port) for template in _NETWORK),
        *(
            template.format(command=command, name=variable)
            for template, command in itertools.product(_HOST, commands)
        ),
        *(
            template.format(start=start)
            for template, start in itertools.product(
                _WALKS, ("()", "''", "{}", "answer", "len")
            )
        ),
        *(
            template.format(true=true, number=number)
            for template, true, number in itertools.product(
                _ENDLESS, ("True", "1", "not None"), (7, 30)
            )
        ),
        *(
            template.format(number=number)
            for template, number in itertools.product(_MEMORY, (7, 9, 11))
        ),
    ]
    once = list(dict.fromkeys(plain))
    for wrapper, code in itertools.product(_WRAPPERS, once):
        yield wrapper.format(code=code, indented=code.replace("\n", "\n    "))
