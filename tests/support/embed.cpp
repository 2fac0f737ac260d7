// What a C++17 program does with the installed libraries: it compiles a program, trains it on arrays of its own, and reads what it learnt.
#include <dt.hpp>

#include <cmath>
#include <cstdio>

static const char text[] = "use nn, losses, optimizers\n"
                           "model Line(x: f32[B, 2]) -> f32[B, 1] { return dense(x, units: 1) }\n"
                           "step train(x: f32[B, 2], y: f32[B, 1]) {\n"
                           "    loss = mean_squared_error(y, Line(x))\n"
                           "    minimize(loss, sgd(learning_rate: 0.2))\n"
                           "    report loss: mean(loss)\n"
                           "}\n"
                           "step predict(x: f32[B, 2]) { return y: Line(x) }\n";

static void require(bool holds, const char *what) {
    if (holds) return;
    std::printf("not so: %s\n", what);
    std::exit(1);
}

template <class Work> static dt_code code_of(Work work) {
    try {
        work();
    } catch (const dt::error &failed) {
        return failed.code();
    }
    return DT_OK;
}

static void mistakes_are_exceptions() {
    dt::source wrong("wrong.dt", "step s(x: f32[B]) {\n    return y: nothing\n}\n");
    try {
        dt::compile(wrong);
        require(false, "a mistake throws");
    } catch (const dt::error &failed) {
        require(failed.code() == DT_INVALID_ARGUMENT && failed.file() == "wrong.dt" && failed.line() == 2, "an exception has its place");
    }
    int n = 0;
    wrong.diagnostic = [&](const dtc_diagnostic &one) { n += one.severity == DTC_ERROR; };
    require(code_of([&] { dt::compile(wrong); }) == DT_INVALID_ARGUMENT && n == 1, "each finding is told");
    wrong.diagnostic = [](const dtc_diagnostic &) { throw dt::error(DT_OUT_OF_RANGE, "of the callback's"); };
    require(code_of([&] { dt::compile(wrong); }) == DT_OUT_OF_RANGE, "a callback's exception leaves the call");

    dt::source uses("uses.dt", "use mine\nstep s(x: f32[B]) { return y: twice(x) }\n");
    uses.module = [](const std::string &name) -> std::optional<std::string> {
        if (name != "mine") return std::nullopt;
        return "fn twice(x) { return 2 * x }\n";
    };
    uses.emit = "ir";
    require(dt::compile(uses).find("step s") != std::string::npos, "modules come from a function");
}

static void programs_are_drawn_and_checked() {
    dt::source line("line.dt", text);
    require(dt::graph(line, "train").find("digraph") != std::string::npos, "a picture is text");
    require(code_of([&] { dt::graph(line, "nosuch"); }) == DT_NOT_FOUND, "there is no such step");
    int n = 0;
    dtc_check_result found = dt::check(line, [&](const dtc_finding &) { n++; });
    require(n > 2 && found.n_held == n, "each finding is told and counted");
    require(code_of([&] { dt::check(line, [](const dtc_finding &) { throw dt::error(DT_OUT_OF_RANGE, "of the callback's"); }); }) == DT_OUT_OF_RANGE,
            "a callback's exception leaves the check");
}

int main() {
    mistakes_are_exceptions();
    programs_are_drawn_and_checked();
    dt::source line("line.dt", text);
    line.batch = 8;
    line.cpu = "x86-64-v3";
    auto program = dt::program::from_bytes("line.dtx", dt::compile(line));
    dt::session session(program);
    session.initialize();

    std::vector<float> x, y;
    for (int i = 0; i < 8; i++) {
        x.insert(x.end(), {float(i % 4) / 4, float(i / 4)});
        y.push_back(3 * x[2 * i] - 2 * x[2 * i + 1] + 1);
    }
    for (int i = 0; i < 400; i++) session.step("train", {{x, {8, 2}}, {y, {8, 1}}});
    require(session.report("train", "loss") < 1e-3, "it learns a line");
    require(session.report_values("train", "loss") == std::vector<double>{session.report("train", "loss")}, "a number is a report of one");
    session.step("predict", {{x, {8, 2}}});
    auto predicted = session.result<float>("predict", "y");
    require(predicted.size() == 8 && std::fabs(predicted[5] - y[5]) < 0.1, "a result is read");

    auto weights = session.read<float>("Line/dense/kernel");
    require(std::fabs(weights[0] - 3) < 0.1 && std::fabs(weights[1] + 2) < 0.1, "a variable is read");
    session.write("Line/dense/kernel", {std::vector<float>{1, 1}, {2, 1}});
    require(session.view<float>("Line/dense/kernel")[1] == 1, "a variable is written, and seen");

    require(code_of([&] { session.read<double>("Line/dense/kernel"); }) == DT_INVALID_ARGUMENT, "types are checked");
    require(code_of([&] { session.read<float>("nowhere"); }) == DT_NOT_FOUND, "names are checked");
    require(code_of([&] { session.step("train", {}); }) == DT_INVALID_ARGUMENT, "arrays are counted");
    require(code_of([&] { dt::program missing("nowhere.dtx"); }) == DT_NOT_FOUND, "files are looked for");
    std::puts("all of it holds");
    return 0;
}
