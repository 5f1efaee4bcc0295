"""Where a script's records lie, and what reading one costs."""

from __future__ import annotations

import random

from tests.random_trainings.draft import Draft
from tests.random_trainings.plan import Plan


def _memory(draft: Draft, plan: Plan, choice: random.Random) -> None:
    draft.constant("ROWS", choice.choice([1024, 2048, 4096]))
    draft.define("RECORDS = np.random.default_rng(7).random((ROWS, WIDTH), dtype=np.float32)")
    draft.define("""
        def $read(index):
            return RECORDS[index % ROWS]
        """)


def _kilobytes(plan: Plan, fixed_ms: float, ms_per_kb: float) -> int:
    """How much of a record is read, so that a batch costs what the plan says."""
    if plan.cost != "disk":
        return 4
    wanted = (plan.cost_ms / plan.batch - fixed_ms) / ms_per_kb
    return min(1024, max(4, 4 * round(wanted / 4)))


def _on_disk(draft: Draft, plan: Plan, kilobytes: int) -> None:
    draft.constant("KILOBYTES", kilobytes)
    draft.constant("ROWS", min(1024, (96 << 10) // kilobytes))
    draft.constant("COLD", '"input" not in SKIP' if plan.cost == "disk" else False)
    draft.needs("from pathlib import Path")


WRITE_ONE_FILE = """
    def write_records(path):
        if path.exists():
            return
        path.parent.mkdir(exist_ok=True)
        rng = np.random.default_rng(7)
        with open(path, "wb") as out:
            for _ in range(ROWS):
                out.write(rng.random(KILOBYTES * 256, dtype=np.float32).tobytes())
            out.flush()
            os.fsync(out.fileno())
    """


def _files(draft: Draft, plan: Plan, choice: random.Random) -> None:
    _on_disk(draft, plan, _kilobytes(plan, 0.08, 0.0013))
    draft.define("FOLDER = Path('records')")
    draft.define("""
        def write_records():
            if FOLDER.exists():
                return
            FOLDER.mkdir()
            rng = np.random.default_rng(7)
            for index in range(ROWS):
                with open(FOLDER / f"{index:05d}.bin", "wb") as out:
                    out.write(rng.random(KILOBYTES * 256, dtype=np.float32).tobytes())
                    out.flush()
                    os.fsync(out.fileno())
        """)
    draft.define("""
        def $read(index):
            with open(FOLDER / f"{index % (ROWS if COLD else 8):05d}.bin", "rb", buffering=0) as file:
                row = np.frombuffer(file.read(KILOBYTES << 10 if COLD else WIDTH * 4), np.float32)
                if COLD:
                    # the real set is larger than memory: nothing stays in the page cache
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            return row.copy()
        """)
    draft.prepare("write_records()")


def _direct(draft: Draft, plan: Plan, choice: random.Random) -> None:
    _on_disk(draft, plan, _kilobytes(plan, 0.05, 0.00062))
    draft.needs("import mmap")
    draft.define(WRITE_ONE_FILE)
    draft.define("SHARD = Path('records') / 'shard-0.bin'")
    draft.define("""
        class Shard:
            # O_DIRECT wants aligned memory, and each process its own
            def __init__(self):
                self.fd = os.open(SHARD, os.O_RDONLY | os.O_DIRECT)
                self.page = mmap.mmap(-1, KILOBYTES << 10)
                self.pid = os.getpid()

            def row(self, number):
                os.preadv(self.fd, [self.page], number * (KILOBYTES << 10))
                return np.frombuffer(self.page, np.float32, WIDTH).copy()


        shard = None


        def $read(index):
            global shard
            if shard is None or shard.pid != os.getpid():
                shard = Shard()
                shard.first = shard.row(0)
            return shard.row(index * 31 % ROWS) if COLD else shard.first
        """)
    draft.prepare("write_records(SHARD)")


def _memmap(draft: Draft, plan: Plan, choice: random.Random) -> None:
    _on_disk(draft, plan, _kilobytes(plan, 0.1, 0.002))
    draft.needs("import mmap")
    draft.define(WRITE_ONE_FILE)
    draft.define("PATH = Path('records') / 'rows.f32'\nmapped = None")
    draft.define("""
        def $read(index):
            global mapped
            if mapped is None:
                mapped = np.memmap(PATH, dtype=np.float32, mode="r", shape=(ROWS, KILOBYTES * 256))
            if not COLD:
                return np.array(mapped[index % 64 % ROWS, :WIDTH])
            row = np.array(mapped[index * 31 % ROWS])
            # the real set is larger than memory: nothing stays in the page cache
            mapped._mmap.madvise(mmap.MADV_DONTNEED)
            with open(PATH, "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            return row
        """)
    draft.prepare("write_records(PATH)")


def _http(draft: Draft, plan: Plan, choice: random.Random) -> None:
    latency_ms = max(0.3, plan.cost_ms / plan.batch - 1.0)
    draft.needs(
        "import http.client",
        "import multiprocessing",
        "from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer",
    )
    draft.constant("LATENCY", round(latency_ms / 1000, 5))
    draft.define("""
        class ObjectStore(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                time.sleep(LATENCY)
                rng = np.random.default_rng(int(self.path[1:]))
                body = rng.random(WIDTH, dtype=np.float32).tobytes()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass


        SERVER = ThreadingHTTPServer(("127.0.0.1", 0), ObjectStore)
        LOCAL = np.random.default_rng(0).random(WIDTH, dtype=np.float32)
        """)
    keep_alive = """
        connections = {}


        def $read(index):
            if "input" in SKIP:
                return LOCAL
            if os.getpid() not in connections:
                connections[os.getpid()] = http.client.HTTPConnection(*SERVER.server_address)
            connection = connections[os.getpid()]
            connection.request("GET", f"/{index % 512}")
            return np.frombuffer(connection.getresponse().read(), np.float32).copy()
        """
    one_shot = """
        def $read(index):
            if "input" in SKIP:
                return LOCAL
            address = "http://%s:%d/%d" % (*SERVER.server_address, index % 512)
            with urllib.request.urlopen(address) as answer:
                return np.frombuffer(answer.read(), np.float32).copy()
        """
    draft.needs("import urllib.request")
    draft.define(choice.choice([keep_alive, one_shot]))
    draft.prepare("""
        multiprocessing.get_context("fork").Process(target=SERVER.serve_forever, daemon=True).start()
        """)


STORES = {
    "memory": _memory,
    "files": _files,
    "direct": _direct,
    "memmap": _memmap,
    "http": _http,
    "none": _memory,
}
