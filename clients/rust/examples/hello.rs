//! A hello-worker: `cargo run --example hello`.

use rosterd_client::{Run, Worker};

#[tokio::main]
async fn main() -> rosterd_client::Result<()> {
    let hello = |run: Run| async move {
        println!("item {} of {}: {}", run.item(), run.total(), run.item_parameter());
        Ok(())
    };
    Worker::connect("http://localhost:7700").slots(8).job("hello", hello).run().await
}
