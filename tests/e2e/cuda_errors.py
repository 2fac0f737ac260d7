"""What can go wrong with a GPU, by the fake driver: calls that fail, the first and the last of each kind and all of a step; no driver, no GPU, too little memory, a lost
GPU, code for another one. The process says it in a line, ends with 1, and leaves nothing behind; cuda_errors_full does it with every call."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from gpu_errors import *  # noqa: E402,F403


def first_and_last(calls):
    chosen = {}
    for call in calls:
        chosen.setdefault(call.name, []).append(call)
    return [call for same in chosen.values() for call in {same[0].number: same[0], same[-1].number: same[-1]}.values()]


def says(run, *parts):
    check(run.code == 1 and len(run.error.splitlines()) == 1, f"exit {run.code}:\n{run.error}")
    for part in parts:
        check(part in run.error, f"should say {part}: {run.error}")


def main():
    failing = Failing()
    calls = failing.healthy_calls()
    launches = [i for i, call in enumerate(calls) if call.name == "cuGraphLaunch"]
    step = calls[launches[1]:launches[2]]  # in the midst of it the next batch is staged
    chosen = {call.number: call for call in first_and_last(calls) + step}
    codes = [failing.check(call, ANY) for call in chosen.values()]
    check(codes.count(1) > len(codes) / 2, f"{codes.count(1)} of {len(codes)} failing calls were told")
    allocations = [c for c in calls if c.name.startswith("cuMemAlloc")]
    for call in allocations:
        failing.check(call, MEMORY)
    for name, what in (("cuMemAlloc_v2", "bytes of "), ("cuMemAllocHost_v2", "bytes of inputs and launches"), ("cuGraphInstantiateWithFlags", "operations of a graph")):
        for n in {1, sum(call.name == name for call in calls)}:
            error = failing.train(fail=f"{name}:{n}={MEMORY}").error
            check(re.search(f"cuda:0: no memory for [1-9][0-9]* {what}.*, where [1-9][0-9]* bytes are free on the GPU: .*{name}", error), error)
    records = [i for i, call in enumerate(calls) if call.name == "cuEventRecord" and i > launches[0]]
    for i in records[:3]:  # the inputs of a step are sent while the one before runs
        number = 1 + sum(call.name == "cuEventRecord" for call in calls[:i])
        error = failing.train(fail=f"cuEventRecord:{number}={LOST}").error
        check(re.search(r"cuda:0, (train|evaluate) step [1-9]\d*(, its inputs)?: .*cuEventRecord", error), error)
    waits = [c for c in calls if c.name in ("cuStreamQuery", "cuStreamSynchronize", "cuEventSynchronize", "cuGraphLaunch", "cuMemcpyHtoDAsync_v2")]
    for call in waits[:: max(1, len(waits) // 6)]:
        failing.check(call, LOST)
    print(f"{len(calls)} calls; {len(codes)} failed in turn")

    says(failing.train(memory=100000), "cuda:0", "memory")
    whole = [call.bytes() for call in calls if call.name == "cuMemAlloc_v2"]
    check(len(whole) == 1, f"a session has {len(whole)} allocations on the GPU")
    says(failing.train(memory=whole[0] - 1), f"the plan needs {whole[0] / 2**20:.1f} MiB of cuda:0's memory", "are free")
    check(failing.train(memory=whole[0]).code == 0, "a plan for which there is just enough memory must run")
    says(failing.train(capability="8.0"), "sm_90", "sm_80", "dtc compile net.dt --target cuda:sm_80")
    says(failing.train(capability="10.0"), "sm_90", "sm_100", "dtc compile net.dt --target cuda:sm_100")
    says(failing.train(count=0), "cuda:0: NVIDIA's driver finds no GPU")
    says(failing.artifact.run("train", "--data", failing.data, devices="cuda:1", expect=None), "cuda:1", "1 GPU")
    says(Run("train", failing.artifact.path, "--data", failing.data, "--devices", "cuda:0", expect=None, environment={"DT_CUDA_DRIVER": "/nowhere/libcuda.so"}),
         "/nowhere/libcuda.so")
    text = failing.artifact.path.with_suffix(".dt").read_text()
    portable = Artifact(text, "portable", target="cuda:compute_80")
    flags = ("train", "--data", failing.data, "--max-steps", 1)
    check(portable.run(*flags, capability="12.0", driver=13990).code == 0, "PTX for sm_80 must run on sm_120")
    says(portable.run(*flags, driver=12040, expect=None), "12.4")
    says(compile_and_run_cpu_only(text, failing.data), "--target cuda")
    found = portable.environment(capability="9.0") | {"XDG_CACHE_HOME": str(FOLDER / "cache")}
    source = portable.path.with_suffix(".dt")
    run = Run("train", source, "--data", failing.data, "--max-steps", 1, "--devices", "cuda:0", expect=None, environment=found, seconds=300)
    check(run.code == 0, f"a .dt that is to run on a GPU is compiled for GPUs: {run.error}")
    finish()


def compile_and_run_cpu_only(text, data):
    plain = compile_program(text, "plain")
    environment = {"DT_CUDA_DRIVER": str(DRIVER)}
    return Run("train", plain, "--data", data, "--devices", "cuda:0", expect=None, environment=environment)


main()
