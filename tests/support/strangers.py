"""strangers: connections to a port that say nothing, or what is no greeting, for as long as one likes: who is shown the door comes again."""
import random
import resource
import select
import socket
import threading
import time


class Strangers:
    """So many of them at `address`, "127.0.0.1:7000"."""

    GREETING = b"\xff\0\0\0\0\0\0\0\1\x7f\3\0CURVE" + bytes(48)  # of ZeroMQ's

    def __init__(self, address, n):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        host, port = address.rsplit(":", 1)
        self.address, self.n, self.n_begun, self.n_ended = (host, int(port)), min(n, hard - 200), 0, 0
        self.is_over, self.numbers = False, random.Random(n)
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def connect(self):
        stranger = socket.socket()
        stranger.setblocking(False)
        stranger.connect_ex(self.address)
        return stranger

    def run(self):
        here, poll = {}, select.epoll()
        while not self.is_over:
            for _ in range(min(self.n - len(here), 500 if self.n_begun < self.n else 10)):
                stranger = self.connect()
                self.n_begun += 1
                here[stranger.fileno()] = stranger
                poll.register(stranger, select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR)
                if self.numbers.random() < 0.1:
                    try:
                        stranger.send(self.GREETING[:self.numbers.randrange(1, 64)])
                    except OSError:
                        pass  # it is not connected yet, and says nothing
            time.sleep(0.02)
            for number, what in poll.poll(0):
                if what & (select.EPOLLHUP | select.EPOLLERR) or not self.reads(here[number]):
                    poll.unregister(number)
                    here.pop(number).close()
                    self.n_ended += 1
        for stranger in here.values():
            stranger.close()

    @staticmethod
    def reads(stranger):
        try:
            return bool(stranger.recv(1000))
        except OSError:
            return False

    def end(self):
        self.is_over = True
        self.thread.join()
