"""Compile and train `.dt` programs from Python, with arrays of your own.

    program = dt.compile("m.dt")
    session = program.session(replicas=2, devices="cpu:2", data="/usr/share/datasets/fashion-mnist")
    for report in session.train(epochs=5):
        print(report["loss"], report["evaluate.accuracy"])
"""
from dt._dt import (Aborted, AlreadyExists, CompileError, DataLoss, Error, FailedPrecondition, InputOutput, InternalError, InvalidArgument, NotFound,
                    OutOfRange, ResourceExhausted, Unimplemented)
from dt._dt import version as __version__
from dt.callbacks import Moment
from dt.program import (CompileWarning, Diagnostic, Finding, Layer, Picture, Program, Step, Tensor, compile, devices, export_weights, format, open,
                        report)
from dt.processes import Processes
from dt.session import LaunchValues, Session
from dt.training import Gathered, Report, Training

__all__ = ["compile", "open", "devices", "export_weights", "format", "report", "Program", "Session", "Processes", "Training", "Report", "Gathered", "Moment", "LaunchValues",
           "Step", "Tensor", "Layer", "Picture", "Finding", "Diagnostic", "CompileWarning", "Error", "CompileError", "InvalidArgument", "NotFound",
           "AlreadyExists", "OutOfRange", "DataLoss", "FailedPrecondition", "ResourceExhausted", "Unimplemented", "Aborted", "InputOutput", "InternalError"]
