//! Cold starts by name, each with where its numbers come from. They are single measurements by single vendors, or put together from several: a
//! place to start from, not a law.

use servelab_spec::catalog::StartupInfo;
use servelab_spec::experiment::StartupSpec;

/// All of them, in the order shown.
pub fn all() -> Vec<StartupInfo> {
    let info = |name: &str, label: &str, source: &str, startup| StartupInfo {
        name: name.into(),
        label: label.into(),
        source: source.into(),
        startup,
    };
    vec![
        info("instant", "At once", "no cold start: for runs that are not about it", StartupSpec::default()),
        info(
            "l40s_8b",
            "8B on an L40S, nothing cached",
            "tensorfuse.io on vLLM start-up: download 61 s, load 33, Dynamo 10, compile 42, graphs 54, initialisation and imports 94: 294 s. \
             16 GB of weights assumed, bandwidths so that the times come out",
            l40s_8b(),
        ),
        info(
            "l40s_8b_cached",
            "8B on an L40S, cache volume and fewer graph sizes",
            "the same post with a cache volume and fewer graph sizes: 0, 18, 10, 13, 7, 34: 82 s",
            StartupSpec {
                nvme: true,
                streamed: true,
                compile_cache: true,
                few_graphs: true,
                device_gb_s: 25.0,
                ..l40s_8b()
            },
        ),
        info(
            "image_8b",
            "8B in its container image",
            "bentoml.com on cold starts: an image of 20.2 GB, 15 of them weights, is pulled in 5 to 6 min and unpacked in 3 to 4, and starts in about 2; \
             the middle of each taken",
            StartupSpec {
                image_gb: 20.2,
                registry_gb_s: 0.0612,
                unpack_gb_s: 0.0962,
                process_s: 120.0,
                ..StartupSpec::default()
            },
        ),
        info(
            "h100_70b",
            "70B on 4 × H100, on a new node",
            "put together: a GPU node takes 3 to 4 min (Kubernetes cluster-autoscaler FAQ); 140 GB from a gp3 disk at 1.05 GB/s (Run:ai model streamer \
             benchmarks), which one reader reads at 0.31; PCIe 5 at 50 GB/s to each GPU; image as in the 8B image without its weights; process, compile \
             and graphs as on the L40S, the cached figures too, since nobody has published them for this size",
            StartupSpec {
                parameters_b: 70.0,
                tensor_parallel: 4,
                node_s: 210.0,
                image_gb: 5.2,
                registry_gb_s: 0.0612,
                unpack_gb_s: 0.0962,
                store_gb_s: 1.05,
                reader_gb_s: 0.31,
                nvme_gb_s: 20.0,
                device_gb_s: 50.0,
                warm_up_s: 2.0,
                ..engine()
            },
        ),
        info(
            "tinygpt_gpu",
            "TinyGPT in a browser, WebGPU",
            "5 838 080 parameters of 4 bytes over a line of 100 Mbit/s; 2 GB/s to the GPU assumed; the first step compiles its pipelines in 0.5 to 1.4 s \
             on hardware adapters",
            StartupSpec {
                parameters_b: 0.005_838_08,
                bits: 32.0,
                store_gb_s: 0.0125,
                device_gb_s: 2.0,
                warm_up_s: 1.0,
                ..StartupSpec::default()
            },
        ),
    ]
}

/// The cold start of that name.
pub fn find(name: &str) -> Option<StartupInfo> {
    all().into_iter().find(|info| info.name == name)
}

/// Process, compile and graphs as measured on the L40S.
fn engine() -> StartupSpec {
    StartupSpec {
        process_s: 94.0,
        process_local_s: 34.0,
        compile_s: 52.0,
        compile_cached_s: 23.0,
        graphs_s: 54.0,
        graphs_few_s: 7.0,
        ..StartupSpec::default()
    }
}

fn l40s_8b() -> StartupSpec {
    StartupSpec { parameters_b: 8.0, store_gb_s: 0.2623, nvme_gb_s: 0.889, device_gb_s: 0.4848, ..engine() }
}
