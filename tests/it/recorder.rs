//! The tracing setup of a worker process: its spans go to a collector.

use std::sync::mpsc;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};

/// Sends the spans of a worker process to the collector, from a separate thread.
#[derive(Debug)]
struct ToCollector(mpsc::Sender<Vec<SpanData>>);

impl SpanExporter for ToCollector {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        // The thread has gone with its process.
        let _gone = self.0.send(batch);
        Ok(())
    }
}

/// Called in a worker process.
pub fn record_to(endpoint: String) {
    let (put, batches) = mpsc::channel::<Vec<SpanData>>();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut client = TraceServiceClient::connect(endpoint).await.unwrap();
            while let Ok(batch) = batches.recv() {
                let spans = batch.into_iter().map(Into::into).collect();
                let scope_spans = vec![ScopeSpans { spans, ..ScopeSpans::default() }];
                let resource_spans = vec![ResourceSpans { scope_spans, ..ResourceSpans::default() }];
                client.export(ExportTraceServiceRequest { resource_spans }).await.unwrap();
            }
        });
    });
    let provider = SdkTracerProvider::builder().with_simple_exporter(ToCollector(put)).build();
    opentelemetry::global::set_tracer_provider(provider);
}
