"""A web server that answers after 4 ms, 4 kB for each number in the path; ends when its stdin does."""

import asyncio
import os
import sys

DELAY_S, SIZE = 0.004, 4096


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve one client for as long as it asks: ``GET /3,1,4``."""
    try:
        while True:
            asked = await reader.readuntil(b"\r\n\r\n")
            numbers = asked.split(b" ", 2)[1].lstrip(b"/").split(b",")
            await asyncio.sleep(DELAY_S)
            body = b"".join(
                bytes((int(number) + i) % 256 for i in range(32)) * (SIZE // 32) for number in numbers
            )
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
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
