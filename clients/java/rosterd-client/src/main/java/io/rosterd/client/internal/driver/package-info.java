/** Gives the machine a thread, a clock and streams. Not part of the API. */
package io.rosterd.client.internal.driver;
