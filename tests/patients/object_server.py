"""An object store behind a slow link: answers each request after 4 ms, and ends when its stdin does."""

import asyncio
import os
import struct
import sys

DELAY_S, SIZE = 0.004, 8192


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve one client: four bytes of index in, one object out."""
    try:
        while True:
            (index,) = struct.unpack("!I", await reader.readexactly(4))
            await asyncio.sleep(DELAY_S)
            writer.write(bytes((index + i) % 256 for i in range(32)) * (SIZE // 32))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main() -> None:
    """Listen on a free port of the loopback, tell which on stdout, and go when the parent has gone."""
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    os.write(1, b"%d\n" % server.sockets[0].getsockname()[1])
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.buffer.read)
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main())
