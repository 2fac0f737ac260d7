"""frozen: a thread of a process that stands still while the others go on, as one does in a file system that hangs: by ptrace, as debuggers do it."""
import ctypes
import os
import threading

ATTACH, DETACH = 16, 17
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p


class Frozen:
    """The main thread of a process, from now on until it is let go."""

    def __init__(self, pid):
        self.pid, self.failure = pid, None
        self.is_over, self.stands = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.hold, daemon=True)  # of ptrace one thread makes all calls
        self.thread.start()
        self.stands.wait()
        if self.failure:
            raise OSError(self.failure, f"cannot trace process {pid}")

    def hold(self):
        if libc.ptrace(ATTACH, self.pid, None, None) != 0:
            self.failure = ctypes.get_errno()
            self.stands.set()
            return
        os.waitpid(self.pid, 0x40000000)  # __WALL
        self.stands.set()
        self.is_over.wait()
        libc.ptrace(DETACH, self.pid, None, None)

    def let_go(self):
        self.is_over.set()
        self.thread.join()
