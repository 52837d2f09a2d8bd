//! The headline suite: CPU time per request against a leading server and against the echo server, latency,
//! memory per key, thread scaling, and the growth pause.

mod collections;
mod modes;
mod stalls;

use super::{Part, Section, Suite, SuiteCase, SuiteLoad, Variant};

/// See the module description.
#[rustfmt::skip]
pub static SUITE: Suite = Suite {
    name: "headline",
    title: "Benchmarks",
    about: "CPU time per request, latency, memory per key, threads, growth pause; against valkey, redis and the echo server",
    servers: &["broadloom", "valkey", "redis", "echo"],
    dataless: &["echo"],
    baselines: &["valkey", "echo"],
    load: SuiteLoad {
        connection_count: 50,
        key_count: 1_000_000,
        key_size: 16,
        value_size: "64",
        round_count: 5,
        warmup_ms: 500,
        length_ms: 2_000,
    },
    sections: &[
        Section {
            name: "requests",
            title: "One server thread",
            about: "Every server runs with one thread and without persistence, over loopback, under the same load in interleaved rounds.",
            length_ms: None,
            part: Part::Compare {
                cases: &[
                    SuiteCase { name: "GET p16",     workload: "get",     pipeline: 16 },
                    SuiteCase { name: "GET p100",    workload: "get",     pipeline: 100 },
                    SuiteCase { name: "SET p16",     workload: "set",     pipeline: 16 },
                    SuiteCase { name: "MGET 10 p4",  workload: "mget10",  pipeline: 4 },
                    SuiteCase { name: "MSET 10 p4",  workload: "mset10",  pipeline: 4 },
                    SuiteCase { name: "GET p1",      workload: "get",     pipeline: 1 },
                    SuiteCase { name: "SET p1",      workload: "set",     pipeline: 1 },
                    SuiteCase { name: "hot GET p16", workload: "get-hot", pipeline: 16 },
                ],
            },
        },
        Section {
            name: "memory",
            title: "Memory",
            about: "A fresh server is filled with distinct keys of 16 bytes; no other load runs.",
            length_ms: None,
            part: Part::Memory { key_count: 5_000_000, value_sizes: &["64", "16..256"] },
        },
        Section {
            name: "threads",
            title: "More threads, and both I/O backends",
            about: "Ratios are relative to one thread of each backend. The load generator runs on the same CPUs.",
            length_ms: None,
            part: Part::Variants {
                server: "broadloom",
                variants: &[
                    Variant { name: "1 thread io_uring",  thread_count: 1, io_backend: "io_uring" },
                    Variant { name: "2 threads io_uring", thread_count: 2, io_backend: "io_uring" },
                    Variant { name: "4 threads io_uring", thread_count: 4, io_backend: "io_uring" },
                    Variant { name: "1 thread epoll",     thread_count: 1, io_backend: "epoll" },
                    Variant { name: "2 threads epoll",    thread_count: 2, io_backend: "epoll" },
                    Variant { name: "4 threads epoll",    thread_count: 4, io_backend: "epoll" },
                ],
                cases: &[
                    SuiteCase { name: "GET p16", workload: "get", pipeline: 16 },
                    SuiteCase { name: "SET p16", workload: "set", pipeline: 16 },
                    SuiteCase { name: "GET p1",  workload: "get", pipeline: 1 },
                ],
            },
        },
        Section {
            name: "growth",
            title: "The pause of growth",
            about: "Reads at a fixed rate while a closed-loop writer fills an empty store.",
            length_ms: None,
            part: Part::Growth {
                key_count: 10_000_000,
                round_count: 3,
                read_rate: 5_000.0,
                read_connection_count: 10,
                write_connection_count: 2,
                write_pipeline: 16,
            },
        },
        collections::REQUESTS,
        collections::MEMORY,
        collections::THREADS,
        modes::MODES,
        stalls::STALLS,
    ],
};
