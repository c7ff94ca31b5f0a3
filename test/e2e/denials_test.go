package e2e

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// garbage makes up to 200 connections a second that are no TLS until the test ends. It
// returns once 200 were made.
func garbage(t *testing.T, address string) {
	t.Helper()
	stop, began := make(chan struct{}), make(chan struct{})
	var loud sync.WaitGroup
	t.Cleanup(func() {
		close(stop)
		loud.Wait()
	})
	loud.Go(func() {
		tick := time.NewTicker(time.Second / 200)
		defer tick.Stop()
		for i := range 200 * 120 {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			if conn, err := net.Dial("tcp", address); err == nil {
				_, _ = conn.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
				_, _ = io.Copy(io.Discard, conn)
				_ = conn.Close()
			}
			if i == 200 {
				close(began)
			}
		}
	})
	<-began
}

// Strangers and their noise take neither a line of the log from a denial, nor its record in
// the audit trail.
func TestOP23EveryDenialIsInTheLogAndTheTrailBesideNoise(t *testing.T) {
	t.Parallel()
	n := prepared(t)
	n.access = "access: {}"
	n.untilEnd(t)
	garbage(t, strings.TrimPrefix(n.tls, "swp+tls://"))
	const each = 15
	var names []string
	for name, address := range n.transports() {
		for i := range each {
			method := fmt.Sprintf("denied.%s.%d", name, i)
			if out, err := n.client("rpc", "call", address, method).CombinedOutput(); err == nil || !strings.Contains(string(out), "not allowed to call this method") {
				t.Fatalf("%s: %v, %s", method, err, out)
			}
			names = append(names, method)
		}
	}
	n.stop(t)
	n.ended <- nil // for the end of the test
	trail := run(t, n.bin+"/swpd", "audit", "find", "--config", filepath.Join(n.dir, "swpd.yaml"), "--outcome", "denied", "--json")
	for _, method := range names {
		if !strings.Contains(n.log.String(), `"msg":"denied","err_code":"ERR_SECURITY_POLICY","peer":"spiffe://localhost/swp-client","profile":"rpc","operation":"call","name":"`+method+`"`) {
			t.Errorf("%s is not in the log", method)
		}
		if !strings.Contains(trail, `"`+method+`"`) {
			t.Errorf("%s is not in the trail", method)
		}
	}
	if !strings.Contains(n.log.String(), `"msg":"security event"`) {
		t.Error("the log shows no noise")
	}
}
