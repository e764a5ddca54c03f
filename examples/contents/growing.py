# A service that keeps each session for ever, beside other work.
import threading
import time

class Session:
    def __init__(self, number):
        self.name = "session-%d" % number
        self.data = bytes(200)

SESSIONS = {}

def serve():
    number = 0
    while True:
        number += 1
        SESSIONS[number] = Session(number)  # never removed
        _ = [str(at) for at in range(200)]
        time.sleep(0.01)

threading.Thread(target=serve).start()
