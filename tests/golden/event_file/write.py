"""Writes events.bin: the events of tests/unit/event_file.c as TensorBoard's own messages and checksums make them, counted in NumPy's histogram.

    python3 -m venv v && v/bin/pip install tensorboard==2.21.0 'setuptools<81' && v/bin/python tests/golden/event_file/write.py
"""
import pathlib
import struct

import numpy
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

Event, Value = event_pb2.Event, summary_pb2.Summary.Value
PNG = bytes(range(10))


def summary(wall_time, step, **value):
    return Event(wall_time=wall_time, step=step, summary=summary_pb2.Summary(value=[Value(**value)]))


def histogram(numbers):
    counts, edges = numpy.histogram(numbers, bins=30)
    return summary_pb2.HistogramProto(min=min(numbers), max=max(numbers), num=len(numbers), sum=sum(numbers),
                                      sum_squares=sum(x * x for x in numbers), bucket_limit=edges[1:], bucket=counts)


events = [
    Event(wall_time=1700000000.25, file_version="brain.Event:2"),
    Event(wall_time=1700000000.25, step=470, session_log=event_pb2.SessionLog(status=event_pb2.SessionLog.START)),
    summary(1700000001.5, 500, tag="loss/train_step", simple_value=0.1),
    summary(1700000002, 938, tag="weights/Net/dense/kernel", histo=histogram([float(i) for i in range(31)])),
    summary(1700000003, 1 << 40, tag="sample/image/0",
            image=summary_pb2.Summary.Image(width=28, height=14, colorspace=1, encoded_image_string=PNG)),
]
with open(pathlib.Path(__file__).parent / "events.bin", "wb") as file:
    for event in events:
        message = event.SerializeToString()
        length = struct.pack("<Q", len(message))
        file.write(length + struct.pack("<I", masked_crc32c(length)) + message + struct.pack("<I", masked_crc32c(message)))
