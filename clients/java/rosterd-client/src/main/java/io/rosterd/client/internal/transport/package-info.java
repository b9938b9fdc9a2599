/** Streams to coordinators over gRPC, and what they are secured with. Not part of the API. */
package io.rosterd.client.internal.transport;
