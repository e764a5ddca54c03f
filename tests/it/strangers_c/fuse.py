"""A file system that can stop answering: fuse.py MOUNTPOINT FOLDER STALL serves the files of FOLDER by /dev/fuse. While
the file STALL exists it answers nothing. It removes this file if a process has waited for five minutes, because no signal
ends such a process. It says `ready` when it is mounted, and ends with its standard input."""

import contextlib
import ctypes
import os
import struct
import sys
import threading
import time

place, folder, stall = sys.argv[1:4]
device = os.open("/dev/fuse", os.O_RDWR)
libc = ctypes.CDLL(None, use_errno=True)
options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions"
if libc.mount(b"slow", place.encode(), b"fuse.slow", ctypes.c_ulong(0), options.encode()):
    sys.exit(f"mount: {os.strerror(ctypes.get_errno())}")
names = sorted(os.listdir(folder))
numbers = {name: at + 2 for at, name in enumerate(names)}
LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE = 1, 2, 3, 14, 15, 17, 18
FLUSH, INIT, OPENDIR, RELEASEDIR, ACCESS, INTERRUPT, FORGETS = 25, 26, 27, 29, 34, 36, 42


def attributes(number):
    if number == 1:
        return struct.pack("<6Q10I", 1, 4096, 8, 0, 0, 0, 0, 0, 0, 0o40755, 2, 0, 0, 0, 4096, 0)
    found = os.stat(os.path.join(folder, names[number - 2]))
    return struct.pack("<6Q10I", number, found.st_size, found.st_blocks, 0, 0, 0, 0, 0, 0, 0o100755, 1, 0, 0, 0, 4096, 0)


def reply(unique, error, data=b""):
    try:
        os.write(device, struct.pack("<IiQ", 16 + len(data), -error, unique) + data)
    except OSError:
        pass


def handle(message):
    length, call, unique, node = struct.unpack("<IIQQ", message[:24])
    body = message[40:length]
    if call in (FORGET, FORGETS, INTERRUPT):
        return
    began = time.monotonic()
    while os.path.exists(stall) and call != INIT:
        if time.monotonic() > began + 300:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(stall)
        time.sleep(0.05)
    if call == INIT:
        ahead = struct.unpack("<4I", body[:16])[2]
        reply(unique, 0, struct.pack("<4I2H2I2H8I", 7, 31, ahead, 0, 16, 8, 131072, 1, 32, *[0] * 9))
    elif call == LOOKUP:
        number = numbers.get(body.split(b"\0")[0].decode())
        if number is None:
            reply(unique, 2)
        else:
            reply(unique, 0, struct.pack("<4Q2I", number, 0, 0, 0, 0, 0) + attributes(number))
    elif call == GETATTR:
        reply(unique, 0, struct.pack("<QII", 0, 0, 0) + attributes(node))
    elif call in (OPEN, OPENDIR):
        reply(unique, 0, struct.pack("<QII", node, 0, 0))
    elif call == READ:
        offset, size = struct.unpack("<QQI", body[:20])[1:]
        with open(os.path.join(folder, names[node - 2]), "rb") as file:
            file.seek(offset)
            reply(unique, 0, file.read(size))
    elif call == STATFS:
        reply(unique, 0, struct.pack("<5Q4I6I", 1, 1, 1, 1, 1, 4096, 255, 4096, 0, *[0] * 6))
    elif call in (RELEASE, FLUSH, RELEASEDIR, ACCESS):
        reply(unique, 0)
    else:
        reply(unique, 38)


def serve():
    while True:
        try:
            message = os.read(device, 1 << 20)
        except OSError as error:
            if error.errno == 19:
                return
            continue
        threading.Thread(target=handle, args=(message,), daemon=True).start()


threading.Thread(target=serve, daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
libc.umount2(place.encode(), 2)
