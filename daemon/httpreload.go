package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/bridge/gate"
	"github.com/slimwire/swp/daemon/boundlog"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/transport"
)

// httpDoor is who the fronts let in and how they speak TLS: what of section http may
// change while they serve.
type httpDoor struct {
	gate    *gate.Gate
	secure  atomic.Pointer[secured] // nil: plain HTTP
	failure atomic.Pointer[string]  // why the section or its files cannot be used now; nil if they can
	known   certified

	mu    sync.Mutex
	conf  config.HTTP // in force
	stamp string      // what the files looked like when they were read last
}

// secured is one reading of the files of http.tls.
type secured struct {
	*tls.Config
	roots   *x509.CertPool // of client certificates; nil: none are asked for
	anchors string         // the bundles, to tell whether trust changed
}

// trusts reports whether the certificates that a client has shown are good now.
func (s *secured) trusts(chain []*x509.Certificate) bool {
	return s.roots != nil && transport.VerifyClient(s.roots, chain, time.Now()) == nil
}

func newHTTPDoor(conf *config.HTTP) (*httpDoor, error) {
	d := &httpDoor{conf: *conf, stamp: stampOf(tlsFiles(&conf.TLS)...)}
	d.known.good = func(chain []*x509.Certificate) bool { return d.secure.Load().trusts(chain) }
	var err error
	if d.gate, err = gate.New(gateOptions(conf)); err != nil || conf.TLS.Cert == "" {
		return d, err
	}
	secure, err := tlsOf(&conf.TLS)
	d.secure.Store(secure)
	return d, err
}

func gateOptions(conf *config.HTTP) gate.Options {
	o := gate.Options{
		Callers: make(map[string][]string), Certificates: make(map[string][]string), Identity: transport.Identity,
		Anonymous: conf.Anonymous, Hosts: conf.Hosts, Origins: conf.Origins, Calls: conf.Calls,
	}
	for name, c := range conf.Callers {
		o.Callers[name], o.Certificates[name] = c.Tokens, c.Certificates
	}
	return o
}

func tlsFiles(conf *config.HTTPTLS) []string {
	return append([]string{conf.Cert, conf.Key}, conf.CA...)
}

// config is what a listener speaks TLS by: each connection as the files are then.
func (d *httpDoor) config() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return d.secure.Load().Config, nil },
	}
}

// httpLater returns the keys of section http whose change waits for the next start. What
// is right for one address may not be for another, so that with a new address all
// of it waits.
func httpLater(old, now *config.HTTP) (keys []string) {
	a, b := reflect.ValueOf(old).Elem(), reflect.ValueOf(now).Elem()
	moved := old.Address != now.Address || (old.TLS.Cert == "") != (now.TLS.Cert == "")
	for i := range a.NumField() {
		key := a.Type().Field(i).Tag.Get("yaml")
		if (moved || !httpNow[key]) && !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
			keys = append(keys, "http."+key)
		}
	}
	return keys
}

// httpNow are the keys of section http that hold at once.
var httpNow = map[string]bool{"callers": true, "anonymous": true, "hosts": true, "origins": true, "tls": true}

// refresh takes up a configuration and reads its files again: always, or if something
// has changed or could not be used. It reports whether somebody may not be let in
// any more. What cannot be used changes nothing.
func (d *httpDoor) refresh(always bool, started, now *config.HTTP, log *zap.Logger) (changed bool, err error) {
	next := *started
	if started.Address == now.Address && (started.TLS.Cert == "") == (now.TLS.Cert == "") {
		next.Callers, next.Anonymous, next.Hosts, next.Origins, next.TLS = now.Callers, now.Anonymous, now.Hosts, now.Origins, now.TLS
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	stamp := stampOf(tlsFiles(&next.TLS)...)
	same := reflect.DeepEqual(next, d.conf)
	if !always && same && stamp == d.stamp && d.failure.Load() == nil {
		return false, nil
	}
	d.stamp = stamp
	var secure *secured
	if next.TLS.Cert != "" {
		secure, err = tlsOf(&next.TLS)
	}
	if err == nil {
		err = d.gate.Set(gateOptions(&next))
	}
	if err != nil {
		text := boundlog.CleanLines(err.Error())
		if old := d.failure.Swap(&text); old == nil || *old != text {
			log.Error("http not reloaded, what was there stays in force", zap.Error(err))
		}
		return false, err
	}
	d.failure.Store(nil)
	d.conf = next
	trust := false
	if secure != nil {
		trust = d.secure.Swap(secure).anchors != secure.anchors
	}
	log.Info("http reloaded", zap.Int("callers", len(next.Callers)), zap.Bool("tls", secure != nil), zap.Int("authorities", len(next.TLS.CA)))
	return trust || !same, nil
}

// certified are the open connections of clients that have shown a certificate, so that
// those can be held against other authorities. The zero value needs good.
type certified struct {
	good func(chain []*x509.Certificate) bool

	mu   sync.Mutex
	open map[*tls.Conn]struct{}
}

// state is the ConnState of a server.
func (c *certified) state(conn net.Conn, state http.ConnState) {
	secure, ok := conn.(*tls.Conn)
	if !ok {
		return
	}
	switch state {
	case http.StateActive: // after the handshake
		if len(secure.ConnectionState().PeerCertificates) == 0 || !c.add(secure) {
			return
		}
		if !c.good(secure.ConnectionState().PeerCertificates) { // not any more
			_ = secure.Close()
		}
	case http.StateClosed, http.StateHijacked:
		c.mu.Lock()
		delete(c.open, secure)
		c.mu.Unlock()
	case http.StateNew, http.StateIdle:
	}
}

// add reports whether a connection was not there.
func (c *certified) add(conn *tls.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = make(map[*tls.Conn]struct{})
	}
	_, known := c.open[conn]
	c.open[conn] = struct{}{}
	return !known
}

// recheck ends the connections whose certificates are not good any more.
func (c *certified) recheck() (kept, closed int) {
	c.mu.Lock()
	list := make([]*tls.Conn, 0, len(c.open))
	for conn := range c.open {
		list = append(list, conn)
	}
	c.mu.Unlock()
	for _, conn := range list {
		if c.good(conn.ConnectionState().PeerCertificates) {
			kept++
			continue
		}
		_ = conn.NetConn().Close() // which does not wait for the client
		closed++
	}
	return kept, closed
}
