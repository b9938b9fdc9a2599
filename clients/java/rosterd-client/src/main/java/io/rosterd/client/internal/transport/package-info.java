/** Streams to coordinators over gRPC, and how they are secured. Not part of the API. */
package io.rosterd.client.internal.transport;
