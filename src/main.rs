fn main() {
    let config = rosterd::config::Loaded::read(&rosterd::config::Sources { flags: vec![("data_dir".into(), "/tmp/rd/data".into())], ..Default::default() });
    let config = match config { Ok(l) => l.config, Err(e) => { eprintln!("{e}"); std::process::exit(2) } };
    let _ = rosterd::runtime::telemetry::init(rosterd::runtime::telemetry::LogFormat::Text, "info");
    let rt = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    if let Err(e) = rt.block_on(rosterd::app::dev(config)) { eprintln!("{e}"); std::process::exit(1) }
}
