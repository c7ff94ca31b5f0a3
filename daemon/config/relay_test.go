package config

import (
	"strings"
	"testing"
)

func TestRelayIsChecked(t *testing.T) {
	for name, test := range map[string]struct{ yaml, want string }{
		"window":       {"relay: {window: 0s}\n", "relay.window: is 0s, want 1s to"},
		"ttl":          {"relay: {ttl: 169h}\n", "relay.ttl: is 169h0m0s, want 0s to 168h0m0s"},
		"retention":    {"relay: {retention: 87601h}\n", "relay.retention: is 87601h0m0s, want 1s to 87600h0m0s"},
		"ack_timeout":  {"relay: {ack_timeout: 0s}\n", "relay.ack_timeout: is 0s, want 1ms to 24h0m0s"},
		"backoff":      {"relay: {backoff: 61s}\n", "relay.backoff: is 1m1s, want 1ms to 1m0s"},
		"max_attempts": {"relay: {max_attempts: 0}\n", "relay.max_attempts: is 0, want 1 to 1000"},
		"waiting":      {"relay: {remembered: 1000}\n", "relay.waiting: is 100000, want 1 to 1000"},
		"in_flight":    {"relay: {in_flight: 4095}\n", "relay.in_flight_per_identity: is 4096, want 1 to 4095"},
		"of one":       {"relay: {in_flight_per_identity: 127}\n", "relay.max_in_flight: is 128, want 1 to 127"},
		"payload":      {"relay: {max_payload: 8184KiB}\n", "relay.max_payload: is 8184KiB, want at most 8183KiB"},
		"stored":       {"relay: {max_payload: 8MiB}\nlimits: {payload_bytes: 9MiB, frame_bytes: 10MiB}\n", "relay.max_payload: is 8MiB, want at most 8191KiB"},
	} {
		_, err := load(t, dir(t), test.yaml)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	c, err := load(t, dir(t), "relay: {window: 1s, ttl: 1h, retention: 1h, max_payload: 8183KiB, waiting: 1, remembered: 1}\n")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := c.RelayPayload(), Size(8183<<10); got != want {
		t.Errorf("payloads of %s, want %s", got, want)
	}
}
