// The types that the console reads, by their names in the API's description. Taken from `types.ts`, which is generated
// from that: `tests/it/openapi.rs` compares it with what a coordinator serves, and writes it with UPDATE_GOLDEN=1.
import type { components } from './types';

type Schemas = components['schemas'];
export type JobBrief = Schemas['JobBrief'];
export type Job = Schemas['Job'];
export type Sharding = Schemas['Sharding'];
export type Server = Schemas['Server'];
export type ServerJob = Schemas['ServerJob'];
export type Instance = Schemas['Instance'];
export type Run = Schemas['Run'];
export type Fire = Schemas['Fire'];
export type Event = Schemas['Event'];
export type Cluster = Schemas['Cluster'];
export type Coordinator = Schemas['Coordinator'];
export type JobChange = Schemas['JobChange'];
export type FieldChange = Schemas['FieldChange'];
export type ErrorPage = Schemas['ErrorPage'];
export type Counters = Schemas['Counters'];
export type Overview = Schemas['Overview'];
export type Attention = Schemas['Attention'];
export type Explanation = Schemas['Explanation'];
export type Sentence = Schemas['Sentence'];
export type Ownership = Schemas['Ownership'];
export type FireOfJob = Schemas['FireOfJob'];
export type RunOfFire = Schemas['RunOfFire'];
export type Checked = Schemas['Checked'];
export type Session = Schemas['SessionView'];
export type Alarms = Schemas['Alarms'];
export type Alarm = Schemas['Alarm'];
export type Silence = Schemas['Silence'];
export type Delivery = Schemas['Delivery'];
