/* dt.hpp: dtc.h and dtrt.h for C++17, header only: objects that free what they hold, exceptions in the place of statuses, spans in that of pointers.
 *
 *     auto program = dt::program::from_bytes("m.dtx", dt::compile({"m.dt"}));
 *     dt::session session(program);
 *     session.initialize();
 *     std::vector<float> image(64 * 784);
 *     std::vector<std::uint8_t> label(64);
 *     session.step("train", {{image, {64, 784}}, {label, {64}}});
 *     double loss = session.report("train", "loss");
 *
 * A program that uses only one half links only that library. What a function does, which errors there are and which threads may call it is said at
 * the C function of its name. Exceptions that a callback throws leave the call that called it. */
#ifndef DT_HPP
#define DT_HPP

#include "dtc.h"
#include "dtrt.h"

#include <cstdint>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace dt {

/* ---- errors ---- */

/* A failure: what() is the sentence. */
class error : public std::runtime_error {
  public:
    error(dt_code code, const std::string &message, std::string file = "", int line = 0, int column = 0, std::string variable = "")
        : std::runtime_error(message), code_(code), file_(std::move(file)), variable_(std::move(variable)), line_(line), column_(column) {}
    dt_code code() const { return code_; }
    const std::string &file() const { return file_; }         /* that it is about; empty where there is none */
    const std::string &variable() const { return variable_; } /* likewise, its path */
    int line() const { return line_; }
    int column() const { return column_; }

  private:
    dt_code code_;
    std::string file_, variable_;
    int line_, column_;
};

namespace detail {

inline void check(dt_status *status, void (*free_status)(dt_status *)) {
    if (status == nullptr) return;
    std::unique_ptr<dt_status, void (*)(dt_status *)> owner(status, free_status);
    throw error(status->code, status->message, status->file, status->line, status->column, status->variable);
}
inline void check_dtc(dt_status *status) { check(status, dtc_status_free); }
inline void check_dtrt(dt_status *status) { check(status, dtrt_status_free); }

template <class Struct> Struct sized() {
    Struct made{};
    made.size = sizeof made;
    return made;
}

inline const char *or_null(const std::string &text) { return text.empty() ? nullptr : text.c_str(); }

inline int index_of(int index, const char *what, const std::string &name) {
    if (index < 0) throw error(DT_NOT_FOUND, std::string("there is no ") + what + " " + name);
    return index;
}

/* A text of the library's, freed. */
inline std::string take(char *text) {
    std::unique_ptr<char, void (*)(void *)> owner(text, dtrt_free);
    return text;
}

/* Runs a callback of ours below one of C: an exception is kept, and stops the call. */
template <class Work> int guarded(std::exception_ptr &thrown, Work &&work) {
    try {
        work();
        return 0;
    } catch (...) {
        thrown = std::current_exception();
        return 1;
    }
}

} // namespace detail

/* ---- spans and arrays ---- */

/* Elements that belong to somebody else. */
template <class T> class span {
  public:
    span() = default;
    span(T *data, std::size_t size) : data_(data), size_(size) {}
    template <class Container, class = std::enable_if_t<std::is_convertible_v<decltype(std::declval<Container &>().data()), T *>>>
    span(Container &container) : data_(container.data()), size_(container.size()) {}
    T *data() const { return data_; }
    std::size_t size() const { return size_; }
    T *begin() const { return data_; }
    T *end() const { return data_ + size_; }
    T &operator[](std::size_t i) const { return data_[i]; }

  private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

template <class T> constexpr dtrt_dtype dtype_of() {
    using E = std::remove_cv_t<T>;
    static_assert(std::is_arithmetic_v<E>, "elements are numbers");
    if constexpr (std::is_same_v<E, bool>) return DTRT_BOOL;
    if constexpr (std::is_same_v<E, float>) return DTRT_F32;
    if constexpr (std::is_same_v<E, double>) return DTRT_F64;
    static_assert(!std::is_integral_v<E> || std::is_same_v<E, bool> || sizeof(E) == 1 || (sizeof(E) >= 4 && std::is_signed_v<E>),
                  "whole numbers are i8, u8, i32 or i64");
    if constexpr (sizeof(E) == 1) return std::is_signed_v<E> ? DTRT_I8 : DTRT_U8;
    return sizeof(E) == 4 ? DTRT_I32 : DTRT_I64;
}

/* A dense array of the caller's, borrowed: {elements, {64, 28, 28}}. */
class array {
  public:
    template <class Container>
    array(const Container &elements, std::initializer_list<std::int64_t> dims)
        : array(elements.data(), elements.size(), std::vector<std::int64_t>(dims)) {}
    template <class T>
    array(const T *data, std::size_t size, std::vector<std::int64_t> dims) : data_(data), dtype_(dtype_of<T>()), dims_(std::move(dims)) {
        std::int64_t n = 1;
        for (std::int64_t dim : dims_) n *= dim;
        if (n != static_cast<std::int64_t>(size))
            throw error(DT_INVALID_ARGUMENT, "an array of " + std::to_string(n) + " elements is made of " + std::to_string(size));
    }
    dtrt_array c_array() const { return {data_, dtype_, static_cast<int>(dims_.size()), dims_.data(), nullptr}; }

  private:
    const void *data_;
    dtrt_dtype dtype_;
    std::vector<std::int64_t> dims_;
};

/* ---- the compiler ---- */

/* A program to compile, and how. Empty and 0 are the defaults of dtc_program and dtc_compile_options. */
struct source {
    std::string path, text, folder;
    std::vector<std::pair<std::string, std::string>> defines;
    std::int64_t batch = 0;
    std::string precision, target, cpu, optimize, emit;
    std::function<void(const dtc_diagnostic &)> diagnostic;
    std::function<std::optional<std::string>(const std::string &)> module;

    source(std::string path_, std::string text_ = "") : path(std::move(path_)), text(std::move(text_)) {}
};

namespace detail {

/* A source as the C functions take it. */
struct source_call {
    const source &of;
    std::vector<dtc_define> defines;
    std::string module_text;
    std::exception_ptr thrown;
    dtc_program program = sized<dtc_program>();

    explicit source_call(const source &of_) : of(of_) {
        for (const auto &[name, value] : of.defines) defines.push_back({name.c_str(), value.c_str()});
        program.path = or_null(of.path);
        program.source = or_null(of.text);
        program.folder = or_null(of.folder);
        program.defines = defines.data();
        program.n_defines = defines.size();
        program.batch = of.batch;
        program.precision = or_null(of.precision);
        program.diagnostic = of.diagnostic ? tell : nullptr;
        program.module = of.module ? find : nullptr;
        program.context = this;
    }
    source_call(const source_call &) = delete;

    /* Throws what a callback threw, or else what the status says. */
    void check(dt_status *status) const {
        if (!thrown) return check_dtc(status);
        dtc_status_free(status);
        std::rethrow_exception(thrown);
    }
    std::string take(dt_status *status, const dtc_bytes &bytes) const {
        std::unique_ptr<char, void (*)(void *)> owner(bytes.data, dtc_free);
        check(status);
        return std::string(bytes.data, bytes.n_bytes);
    }

    static int tell(void *context, const dtc_diagnostic *diagnostic) {
        auto *call = static_cast<source_call *>(context);
        return guarded(call->thrown, [&] { call->of.diagnostic(*diagnostic); });
    }
    static int find(void *context, const char *name, const char **text) {
        auto *call = static_cast<source_call *>(context);
        return guarded(call->thrown, [&] {
            std::optional<std::string> found = call->of.module(name);
            if (!found) return;
            call->module_text = std::move(*found);
            *text = call->module_text.c_str();
        });
    }
};

} // namespace detail

/* The artifact, or the stage that source.emit names, as bytes. */
inline std::string compile(const source &of) {
    detail::source_call call(of);
    auto options = detail::sized<dtc_compile_options>();
    options.target = detail::or_null(of.target);
    options.cpu = detail::or_null(of.cpu);
    options.optimize = detail::or_null(of.optimize);
    options.emit = detail::or_null(of.emit);
    dtc_bytes bytes{};
    dt_status *status = dtc_compile(&call.program, &options, &bytes);
    return call.take(status, bytes);
}

/* A picture of a step; `format` is "dot", "svg", "pdf" or "png". */
inline std::string graph(const source &of, const std::string &step = "", const std::string &format = "dot") {
    detail::source_call call(of);
    auto options = detail::sized<dtc_graph_options>();
    options.step = detail::or_null(step);
    options.format = format.c_str();
    dtc_bytes bytes{};
    dt_status *status = dtc_graph(&call.program, &options, &bytes);
    return call.take(status, bytes);
}

/* What dtc_check_program finds, told one by one and counted. */
inline dtc_check_result check(const source &of, std::function<void(const dtc_finding &)> finding = {}) {
    struct telling {
        detail::source_call &call;
        const std::function<void(const dtc_finding &)> &finding;
    };
    detail::source_call call(of);
    telling context{call, finding};
    auto options = detail::sized<dtc_check_program_options>();
    options.context = &context;
    if (finding)
        options.finding = [](void *context_, const dtc_finding *found) {
            auto *told = static_cast<telling *>(context_);
            return detail::guarded(told->call.thrown, [&] { told->finding(*found); });
        };
    auto result = detail::sized<dtc_check_result>();
    call.check(dtc_check_program(&call.program, &options, &result));
    return result;
}

/* ---- programs ---- */

/* An artifact. Copies share it. */
class program {
  public:
    explicit program(const std::string &path) {
        dtrt_program *opened = nullptr;
        detail::check_dtrt(dtrt_open(path.c_str(), nullptr, &opened));
        program_.reset(opened, dtrt_close);
    }
    static program from_bytes(const std::string &name, const std::string &bytes) {
        dtrt_program *opened = nullptr;
        detail::check_dtrt(dtrt_open_memory(name.c_str(), bytes.data(), bytes.size(), nullptr, &opened));
        return program(opened);
    }

    dtrt_program_info describe() const {
        auto info = detail::sized<dtrt_program_info>();
        detail::check_dtrt(dtrt_program_describe(get(), &info));
        return info;
    }
    int step(const std::string &name) const { return detail::index_of(dtrt_find_step(get(), name.c_str()), "step", name); }
    int variable(const std::string &path) const { return detail::index_of(dtrt_find_variable(get(), path.c_str()), "variable", path); }
    int result(int step, const std::string &name) const { return detail::index_of(dtrt_find_result(get(), step, name.c_str()), "result", name); }
    dtrt_step_info describe_step(int step) const {
        auto info = detail::sized<dtrt_step_info>();
        detail::check_dtrt(dtrt_describe_step(get(), step, &info));
        return info;
    }
    dtrt_tensor describe_variable(int variable) const {
        auto tensor = detail::sized<dtrt_tensor>();
        detail::check_dtrt(dtrt_describe_variable(get(), variable, &tensor));
        return tensor;
    }
    dtrt_tensor describe_result(int step, int result) const {
        auto tensor = detail::sized<dtrt_tensor>();
        detail::check_dtrt(dtrt_describe_result(get(), step, result, &tensor));
        return tensor;
    }
    /* A member of the artifact, "program.dt"; and what `dtrun info` prints. */
    std::string text(const std::string &member) const {
        char *text = nullptr;
        detail::check_dtrt(dtrt_program_text(get(), member.c_str(), &text));
        return detail::take(text);
    }
    std::string info() const {
        char *text = nullptr;
        detail::check_dtrt(dtrt_info(get(), nullptr, &text));
        return detail::take(text);
    }
    /* What `dtrun bench` prints. */
    std::string bench(const dtrt_bench_options &options, const dtrt_session_options &shape) const {
        char *text = nullptr;
        detail::check_dtrt(dtrt_bench(get(), &shape, &options, &text));
        return detail::take(text);
    }
    dtrt_program *get() const { return program_.get(); }

  private:
    explicit program(dtrt_program *opened) : program_(opened, dtrt_close) {}
    std::shared_ptr<dtrt_program> program_;
};

/* ---- sessions ---- */

/* The processes of a run; a process that nobody launched is a run of one. They outlive the sessions that have them (options.processes = all.get()).
 * One that was not closed when it goes has met an error: the others are told. */
class processes {
  public:
    explicit processes(double deadline_seconds = 0) {
        auto options = detail::sized<dtrt_processes_options>();
        options.deadline_seconds = deadline_seconds;
        dtrt_processes *opened = nullptr;
        detail::check_dtrt(dtrt_processes_open(&options, &opened));
        processes_.reset(opened);
    }

    dtrt_processes_info describe() const {
        auto info = detail::sized<dtrt_processes_info>();
        detail::check_dtrt(dtrt_processes_describe(get(), &info));
        return info;
    }
    void abort(const std::string &reason) { detail::check_dtrt(dtrt_processes_abort(get(), reason.c_str())); }
    void close() {
        dt_status *status = dtrt_processes_close(get());
        if (status == nullptr || status->code != DT_FAILED_PRECONDITION) processes_.release(); /* else sessions hold them */
        detail::check_dtrt(status);
    }
    dtrt_processes *get() const { return processes_.get(); }

  private:
    struct leave {
        void operator()(dtrt_processes *held) const {
            dtrt_status_free(dtrt_processes_abort(held, "it has ended without closing its processes"));
            dtrt_status_free(dtrt_processes_close(held));
        }
    };
    std::unique_ptr<dtrt_processes, leave> processes_;
};

/* dtrt_session_options with a member's default where nothing is said: auto options = dt::session_options(); options.replicas = 2; */
inline dtrt_session_options session_options() { return detail::sized<dtrt_session_options>(); }
inline dtrt_train_options train_options() { return detail::sized<dtrt_train_options>(); }
inline dtrt_evaluate_options evaluate_options() { return detail::sized<dtrt_evaluate_options>(); }
inline dtrt_predict_options predict_options() { return detail::sized<dtrt_predict_options>(); }
inline dtrt_generate_options generate_options() { return detail::sized<dtrt_generate_options>(); }
inline dtrt_data_options data_options() { return detail::sized<dtrt_data_options>(); }
inline dtrt_bench_options bench_options() { return detail::sized<dtrt_bench_options>(); }

/* Told of what happens in a run; true asks for its end. */
using event_function = std::function<bool(const dtrt_event &)>;

/* The event in words, as dtrun prints it. */
inline std::string text(const dtrt_event &event, dtrt_text_format format = DTRT_TEXT) {
    char *text = nullptr;
    detail::check_dtrt(dtrt_event_text(&event, format, &text));
    return detail::take(text);
}

/* Data of the program for a session, batch after batch. The session outlives it. */
class pipeline {
  public:
    pipeline(dtrt_session *of, const std::string &name) {
        dtrt_pipeline *opened = nullptr;
        detail::check_dtrt(dtrt_pipeline_open(of, name.c_str(), &opened));
        pipeline_.reset(opened);
    }
    dtrt_pipeline_info describe() const {
        auto info = detail::sized<dtrt_pipeline_info>();
        detail::check_dtrt(dtrt_pipeline_describe(get(), &info));
        return info;
    }
    void seek(std::int64_t epoch, std::int64_t position) { detail::check_dtrt(dtrt_pipeline_seek(get(), epoch, position)); }
    /* Views of the next batch, valid until the next call; none: the epoch is over. */
    std::vector<dtrt_array> next() {
        std::vector<dtrt_array> arrays(static_cast<std::size_t>(describe().n_components));
        std::int64_t rows = 0;
        detail::check_dtrt(dtrt_pipeline_next(get(), arrays.data(), &rows));
        if (rows == 0) arrays.clear();
        return arrays;
    }
    dtrt_pipeline *get() const { return pipeline_.get(); }

  private:
    struct close {
        void operator()(dtrt_pipeline *held) const { dtrt_status_free(dtrt_pipeline_close(held)); }
    };
    std::unique_ptr<dtrt_pipeline, close> pipeline_;
};

/* A program with its variables. One thread at a time. */
class session {
  public:
    /* `event` takes the place of the one of the options. */
    explicit session(dt::program of, dtrt_session_options options = session_options(), event_function event = nullptr)
        : program_(std::move(of)), listener_(new listener{std::move(event), nullptr}) {
        if (listener_->event) {
            options.event = listener::hear;
            options.context = listener_.get();
        }
        dtrt_session *created = nullptr;
        detail::check_dtrt(dtrt_session_create(program_.get(), &options, &created));
        session_.reset(created);
    }

    void initialize() { detail::check_dtrt(dtrt_initialize(get())); }

    /* Runs a step on arrays, in the order of its inputs. */
    void step(const std::string &name, const std::vector<array> &arrays, std::int64_t rows = 0) { step(program_.step(name), arrays, rows); }
    void step(int step, const std::vector<array> &arrays, std::int64_t rows = 0) {
        int n_inputs = program_.describe_step(step).n_inputs;
        if (static_cast<int>(arrays.size()) != n_inputs)
            throw error(DT_INVALID_ARGUMENT, "the step takes " + std::to_string(n_inputs) + " arrays, not " + std::to_string(arrays.size()));
        std::vector<dtrt_array> given;
        for (const array &one : arrays) given.push_back(one.c_array());
        detail::check_dtrt(dtrt_step(get(), step, given.data(), rows));
    }

    dt::pipeline open_pipeline(const std::string &name) { return dt::pipeline(get(), name); }
    /* Runs a step on the next batch of a pipeline, and returns its rows; 0: the epoch is over, and nothing was run. */
    std::int64_t step(const std::string &name, dt::pipeline &from) {
        std::int64_t rows = 0;
        detail::check_dtrt(dtrt_step_pipeline(get(), program_.step(name), from.get(), &rows));
        return rows;
    }

    double report(const std::string &step, const std::string &name) const {
        double value = 0;
        detail::check_dtrt(dtrt_report(get(), program_.step(step), name.c_str(), &value));
        return value;
    }
    double total(const std::string &step, const std::string &name) const {
        double value = 0;
        detail::check_dtrt(dtrt_total(get(), program_.step(step), name.c_str(), &value));
        return value;
    }
    /* All numbers of a report with a shape, dense: of the last step, and of all. */
    std::vector<double> report_values(const std::string &step, const std::string &name) const { return values(dtrt_report_values, step, name); }
    std::vector<double> total_values(const std::string &step, const std::string &name) const { return values(dtrt_total_values, step, name); }
    void reset_totals(const std::string &step) { detail::check_dtrt(dtrt_reset_totals(get(), program_.step(step))); }

    /* All rows of a result of the last step, dense. */
    template <class T> std::vector<T> result(const std::string &step, const std::string &name) const {
        int s = program_.step(step), r = program_.result(s, name);
        dtrt_tensor tensor = program_.describe_result(s, r);
        require<T>(tensor);
        std::int64_t most_rows = describe().global_batch, rows = 0;
        std::vector<T> elements(tensor.row_bytes / sizeof(T) * static_cast<std::size_t>(most_rows));
        detail::check_dtrt(dtrt_result(get(), s, r, elements.data(), elements.size() * sizeof(T), &rows));
        elements.resize(tensor.row_bytes / sizeof(T) * static_cast<std::size_t>(rows));
        return elements;
    }

    /* A variable by its path: a copy; from the caller's elements; where it is. */
    template <class T> std::vector<T> read(const std::string &path) const {
        int variable = program_.variable(path);
        dtrt_tensor tensor = program_.describe_variable(variable);
        require<T>(tensor);
        std::vector<T> elements(tensor.row_bytes / sizeof(T));
        detail::check_dtrt(dtrt_read(get(), variable, elements.data(), elements.size() * sizeof(T)));
        return elements;
    }
    void write(const std::string &path, const array &elements) {
        dtrt_array given = elements.c_array();
        detail::check_dtrt(dtrt_write(get(), program_.variable(path), &given));
    }
    template <class T> span<const T> view(const std::string &path) const {
        int variable = program_.variable(path);
        dtrt_tensor tensor = program_.describe_variable(variable);
        require<T>(tensor);
        dtrt_array viewed{};
        detail::check_dtrt(dtrt_view(get(), variable, &viewed));
        return {static_cast<const T *>(viewed.data), tensor.row_bytes / sizeof(T)};
    }

    void set_launch(const std::string &name, double value) { detail::check_dtrt(dtrt_set_launch(get(), name.c_str(), value)); }
    double launch(const std::string &name) const {
        double value = 0;
        detail::check_dtrt(dtrt_get_launch(get(), name.c_str(), &value));
        return value;
    }

    void set_launch_integer(const std::string &name, std::int64_t value) { detail::check_dtrt(dtrt_set_launch_integer(get(), name.c_str(), value)); }
    std::int64_t launch_integer(const std::string &name) const {
        std::int64_t value = 0;
        detail::check_dtrt(dtrt_get_launch_integer(get(), name.c_str(), &value));
        return value;
    }

    /* Whole runs, on the program's own data or on files. */
    dtrt_run_result train(const dtrt_train_options &options = train_options()) { return run(dtrt_train, options); }
    dtrt_run_result evaluate(const dtrt_evaluate_options &options = evaluate_options()) { return run(dtrt_evaluate, options); }
    dtrt_run_result predict(const dtrt_predict_options &options) { return run(dtrt_predict, options); }
    void write_data(const dtrt_data_options &options) { check(dtrt_write_data(get(), &options)); }
    void write_timeline(const std::string &path) { check(dtrt_write_timeline(get(), path.c_str())); }

    /* The prompt and what is made of it; other members of `options` as in C. */
    std::string generate(const std::string &prompt, dtrt_generate_options options = generate_options()) {
        char *text = nullptr;
        std::size_t n_bytes = 0;
        options.prompt = prompt.c_str();
        detail::check_dtrt(dtrt_generate(get(), &options, &text, &n_bytes));
        std::unique_ptr<char, void (*)(void *)> owner(text, dtrt_free);
        return std::string(text, n_bytes);
    }

    /* Writes a checkpoint; its path. */
    std::string save(const std::string &folder) {
        char *path = nullptr;
        detail::check_dtrt(dtrt_save(get(), folder.c_str(), &path));
        return detail::take(path);
    }
    void load(const std::string &path) { detail::check_dtrt(dtrt_load(get(), path.c_str())); }
    /* Parameters and states of a file made elsewhere; `map` may be empty. */
    void load_weights(const std::string &path, const std::string &map = "", bool allow_missing = false) {
        auto options = detail::sized<dtrt_weights_options>();
        options.map = detail::or_null(map);
        options.allow_missing = allow_missing;
        check(dtrt_load_weights(get(), path.c_str(), &options));
    }

    dtrt_session_info describe() const {
        auto info = detail::sized<dtrt_session_info>();
        detail::check_dtrt(dtrt_session_describe(get(), &info));
        return info;
    }
    const dt::program &program() const { return program_; }
    dtrt_session *get() const { return session_.get(); }

  private:
    struct listener {
        event_function event;
        std::exception_ptr thrown;

        static int hear(void *context, dtrt_session *, const dtrt_event *event) {
            auto *self = static_cast<listener *>(context);
            bool ends = false;
            return self->thrown || detail::guarded(self->thrown, [&] { ends = self->event(*event); }) || ends;
        }
    };

    /* After a call that tells events: an exception of the listener is the reason, whatever the status. */
    void check(dt_status *status) {
        if (listener_->thrown) {
            dtrt_status_free(status);
            std::rethrow_exception(std::exchange(listener_->thrown, nullptr));
        }
        detail::check_dtrt(status);
    }

    template <class Options> dtrt_run_result run(dt_status *(*work)(dtrt_session *, const Options *, dtrt_run_result *), const Options &options) {
        auto result = detail::sized<dtrt_run_result>();
        check(work(get(), &options, &result));
        return result;
    }

    template <class T> static void require(const dtrt_tensor &tensor) {
        if (tensor.dtype != dtype_of<T>())
            throw error(DT_INVALID_ARGUMENT,
                        std::string(tensor.name) + " is of " + dtrt_dtype_name(tensor.dtype) + ", not of " + dtrt_dtype_name(dtype_of<T>()));
    }

    struct destroy {
        void operator()(dtrt_session *held) const { dtrt_status_free(dtrt_session_destroy(held)); }
    };
    template <class Read> std::vector<double> values(Read read, const std::string &step, const std::string &name) const {
        int s = program_.step(step), r = detail::index_of(dtrt_find_report(program_.get(), s, name.c_str()), "report", name);
        auto shape = detail::sized<dtrt_tensor>();
        detail::check_dtrt(dtrt_describe_report_shape(program_.get(), s, r, &shape));
        std::vector<double> numbers(shape.row_bytes / sizeof(double));
        detail::check_dtrt(read(get(), s, r, numbers.data(), numbers.size()));
        return numbers;
    }

    dt::program program_;
    std::unique_ptr<listener> listener_; /* before the session, which tells it */
    std::unique_ptr<dtrt_session, destroy> session_;
};

} // namespace dt

#endif
