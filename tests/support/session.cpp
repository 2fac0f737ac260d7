// What dt.hpp makes of sessions: launch values, pipelines, training with events, checkpoints, text. FOLDER has x.npy and y.npy.
#include <dt.hpp>

#include <cstdio>

static const char text[] = "use nn, losses, optimizers\n"
                           "launch rate = 0.1\n"
                           "data rows = npy(\"x.npy\", \"y.npy\") | shuffle(64) | batch(8)\n"
                           "model Line(x: f32[B, 2]) -> f32[B, 1] { return dense(x, units: 1) }\n"
                           "step train(x: f32[B, 2], y: f32[B, 1]) from rows {\n"
                           "    loss = mean_squared_error(y, Line(x))\n"
                           "    minimize(loss, sgd(learning_rate: rate))\n"
                           "    report loss: mean(loss)\n"
                           "}\n"
                           "step evaluate(x: f32[B, 2], y: f32[B, 1]) from rows { report error: mean(abs(Line(x) - y)) }\n"
                           "step sample(text: u8[B, 4], length: i32[B]) { return next: gather(text, length - 2, axis: 1) }\n";

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

int main(int argc, char **argv) {
    require(argc == 2, "session FOLDER");
    const std::string folder = argv[1];
    dt::source line("line.dt", text);
    line.cpu = "x86-64-v3";
    auto program = dt::program::from_bytes("line.dtx", dt::compile(line));
    require(program.text("program.dt") == text, "a member is read");
    require(program.info().find("step train") != std::string::npos, "what the program holds is told");
    auto options = dt::session_options();
    options.data = folder.c_str();
    options.seed = 5;

    // ---- processes: this one alone ----
    {
        dt::processes alone;
        require(alone.describe().n_processes == 1 && alone.describe().number == 0, "who was not launched is alone");
        auto together = options;
        together.processes = alone.get();
        {
            dt::session session(program, together);
            require(session.describe().n_rows == session.describe().global_batch, "who is alone has all rows");
            require(code_of([&] { alone.close(); }) == DT_FAILED_PRECONDITION, "sessions go first");
        }
        alone.close();
    }

    // ---- launch values ----
    dt::session own(program, options);
    own.initialize();
    require(own.launch("rate") == double(0.1f), "a launch value has the program's value");
    own.set_launch("rate", 0.25);
    require(own.launch("rate") == 0.25, "a launch value is set");
    own.set_launch_integer("counter", 7);
    require(own.launch_integer("counter") == 7, "so is a whole number");
    require(code_of([&] { own.set_launch_integer("rate", (std::int64_t(1) << 53) + 1); }) == DT_INVALID_ARGUMENT, "one that is too large is refused");
    own.set_launch_integer("counter", 0);
    own.set_launch("rate", 0.1);

    // ---- the program's data, in a loop and by train() ----
    {
        auto rows = own.open_pipeline("rows");
        require(rows.describe().n_batches == 3, "a pipeline says what it has");
        auto first = rows.next();
        require(first.size() == 2 && first[0].dims[0] == 8 && first[0].dims[1] == 2, "a batch is looked at");
        rows.seek(0, 0);
        int n = 0;
        for (int epoch = 0; epoch < 2; epoch++)
            while (own.step("train", rows) > 0) n++;
        require(n == 6, "each epoch has its batches");
    }
    int n_epochs = 0;
    std::string said;
    dt::session whole(program, options, [&](const dtrt_event &event) {
        n_epochs += event.kind == DTRT_EVENT_EPOCH && event.trains;
        said = dt::text(event);
        return false;
    });
    whole.initialize();
    auto train = dt::train_options();
    train.epochs = 2;
    auto result = whole.train(train);
    require(result.n_steps == 6 && n_epochs == 2, "training tells its epochs");
    require(said.find("done: 6 steps") != std::string::npos, "an event has words");
    require(whole.read<float>("Line/dense/kernel") == own.read<float>("Line/dense/kernel"), "both ways are the same bits");
    require(whole.evaluate().n_steps == 3 && whole.total("evaluate", "error") > 0, "it is evaluated");

    // ---- checkpoints ----
    std::string path = whole.save(folder + "/checkpoints");
    dt::session again(program, options);
    again.load(path);
    require(again.describe().n_steps == 6, "a checkpoint has the position");
    train.epochs = 3;
    whole.train(train);
    again.train(train);
    require(whole.read<float>("Line/dense/kernel") == again.read<float>("Line/dense/kernel"), "what is loaded goes on to the same bits");
    dt::session weights(program, options);
    weights.load_weights(path);
    require(weights.read<float>("Line/dense/kernel") == own.read<float>("Line/dense/kernel"), "weights alone are loaded");

    // ---- what a listener does ----
    dt::session stopped(program, options, [](const dtrt_event &event) { return event.kind == DTRT_EVENT_STEP; });
    stopped.initialize();
    train.log_every = 2;
    require(stopped.train(train).n_steps == 2, "true stops");
    dt::session moved = std::move(stopped);
    require(moved.train(train).n_steps == 2, "a session that was moved still tells");
    dt::session throwing(program, options, [](const dtrt_event &) -> bool { throw dt::error(DT_OUT_OF_RANGE, "of the listener's"); });
    throwing.initialize();
    require(code_of([&] { throwing.train(train); }) == DT_OUT_OF_RANGE, "an exception leaves the call");

    require(own.generate("ab").size() == 202 && own.generate("ab").substr(0, 6) == "ababab", "text is made");
    require(code_of([&] { own.generate(""); }) == DT_INVALID_ARGUMENT, "of a prompt");
    std::puts("all of it holds");
    return 0;
}
