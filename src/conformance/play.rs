//! Plays the scripts, several groups at a time, and gathers what they say of each rule.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use tokio::time::timeout;

use crate::broken::Broken;
use crate::scripts::{Group, Scene, groups};
use crate::stage::{House, IN_EVERY_SCRIPT, Stage};

/// No scene that passes takes as long.
const LONGEST: Duration = Duration::from_secs(120);

/// What one script has found of one rule.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) rule: &'static str,
    pub(crate) script: String,
    /// Why it is broken, and what happened; none: it is kept.
    pub(crate) broken: Option<(String, Vec<String>)>,
}

/// Whether anything of it is wanted. A rule that is looked at in every script wants all of them.
pub(crate) fn wanted(scene: &Scene, only: &[String]) -> bool {
    let in_every = |one: &String| IN_EVERY_SCRIPT.iter().any(|rule| rule.eq_ignore_ascii_case(one));
    only.is_empty()
        || only.iter().any(in_every)
        || only
            .iter()
            .any(|one| one == scene.name || scene.rules.iter().any(|rule| rule.eq_ignore_ascii_case(one)))
}

pub(crate) async fn all(house: &House, only: &[String], at_a_time: usize) -> Vec<Found> {
    let chosen = groups().into_iter().filter(|group| group.scenes.iter().any(|scene| wanted(scene, only)));
    let played = stream::iter(chosen).map(|group| one(house, group, only)).buffer_unordered(at_a_time);
    let found: Vec<Vec<Found>> = played.collect().await;
    found.into_iter().flatten().collect()
}

/// The scenes of a group, on one worker as long as nothing breaks.
async fn one(house: &House, group: &Group, only: &[String]) -> Vec<Found> {
    let mut found = Vec::new();
    let mut kept: Option<Stage> = None;
    for scene in group.scenes.iter().filter(|scene| wanted(scene, only)) {
        let script = format!("{}/{}", group.name, scene.name);
        let ready = match kept.take() {
            Some(stage) => Ok(stage),
            None => begin(house, group).await,
        };
        let mut stage = match ready {
            Ok(stage) => stage,
            Err(why) => {
                found.extend(scene.rules.iter().map(|rule| Found {
                    rule,
                    script: script.clone(),
                    broken: Some((why.0.clone(), why.1.clone())),
                }));
                continue;
            }
        };
        stage.first_rule();
        stage.did(format!("---- {}", scene.name));
        let played = match timeout(LONGEST, play(&mut stage, group, scene)).await {
            Ok(played) => played,
            Err(_) => Err(Broken(format!("the script is not through after {LONGEST:?}"))),
        };
        found.extend(judged(scene, &script, &stage, played.as_ref().err()));
        if played.is_ok() && group.attached && !stage.is_over() {
            kept = Some(stage);
        } else {
            found.extend(beside(&script, &mut stage));
        }
    }
    if let Some(mut stage) = kept {
        found.extend(beside(group.name, &mut stage));
    }
    found
}

async fn play(stage: &mut Stage, group: &Group, scene: &Scene) -> Result<(), Broken> {
    (scene.play)(stage).await?;
    if group.attached && !stage.is_over() {
        stage.settle().await?;
    }
    Ok(())
}

async fn begin(house: &House, group: &Group) -> Result<Stage, (String, Vec<String>)> {
    let started = Stage::start(house, group.setting).await;
    let mut stage =
        started.map_err(|error| (format!("the worker cannot be started: {error}"), Vec::new()))?;
    if group.attached {
        let attached = async {
            stage.attach().await?;
            // The first loss of a worker that was heard is met at once.
            stage.beat("", |_| true).await?;
            stage.beat("", |_| true).await
        };
        if let Err(broken) = attached.await {
            return Err((format!("the worker does not attach: {broken}"), stage.transcript()));
        }
    }
    Ok(stage)
}

/// The rules before the one that broke are kept, those after it were not reached.
fn judged(scene: &Scene, script: &str, stage: &Stage, broken: Option<&Broken>) -> Vec<Found> {
    let at = stage.rule().min(scene.rules.len() - 1);
    let rule = |(number, rule): (usize, &&'static str)| {
        let broken = broken.and_then(|broken| match number.cmp(&at) {
            std::cmp::Ordering::Less => None,
            std::cmp::Ordering::Equal => Some((broken.0.clone(), stage.transcript())),
            std::cmp::Ordering::Greater => Some((format!("not reached: {broken}"), Vec::new())),
        });
        Found { rule, script: script.to_owned(), broken }
    };
    scene.rules.iter().enumerate().map(rule).collect()
}

/// What is looked at in every script.
fn beside(script: &str, stage: &mut Stage) -> Vec<Found> {
    let found = stage.close();
    let of = |(rule, why): (&'static str, Option<String>)| Found {
        rule,
        script: script.to_owned(),
        broken: why.map(|why| (why, stage.transcript())),
    };
    found.into_iter().map(of).collect()
}

/// The scripts that judge each rule, for people.
pub(crate) fn scripts_by_rule() -> BTreeMap<&'static str, Vec<String>> {
    let mut by_rule: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
    for group in groups() {
        for scene in group.scenes {
            for rule in scene.rules {
                by_rule.entry(rule).or_default().push(format!("{}/{}", group.name, scene.name));
            }
        }
    }
    for rule in IN_EVERY_SCRIPT {
        by_rule.entry(rule).or_default().push("every script".into());
    }
    by_rule
}
