/**
 * The worker's side of the conversation, without I/O: events in, effects out, the time is an argument. Not part of the API.
 */
package io.rosterd.client.internal.machine;
