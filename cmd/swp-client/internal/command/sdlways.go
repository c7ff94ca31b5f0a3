package command

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/profiles/all"
)

// sdlWays are the flags for addresses without SWP.
type sdlWays struct {
	token string
}

func addSDLWays(cmd *cobra.Command) *sdlWays {
	w := new(sdlWays)
	cmd.Flags().StringVar(&w.token, "token", "", "bearer token for http, https, ws and wss: `TOKEN`, or @FILE")
	return w
}

// sdlWaysHelp is what the help says of these addresses.
const sdlWaysHelp = `URL is that of an endpoint without SWP: http:// or https:// (POST /a2a), ws:// or wss://
(a WebSocket at /a2a), unix:PATH (the socket of sdl.socket). There the certificate is optional, the
authorities of servers are those of the system without --ca and --identity, and the hints, traces
and chains of SWP are refused.`

// dial connects to an address of either kind. With events they come, too.
func (w *sdlWays) dial(ctx context.Context, f *flags, address string, set *all.Set, events bool) (*client.Client, error) {
	if !client.WithoutSWP(address) {
		if w.token != "" {
			return nil, &usageError{"--token has no effect over SWP, where a certificate says who this is; leave it out"}
		}
		return f.dialAs(ctx, address, set)
	}
	o, err := w.options(f, address)
	if err != nil {
		return nil, err
	}
	o.Profiles, o.Stopped, o.Events = set, f.stopped, events
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	return client.DialSDL(ctx, address, o)
}

func (w *sdlWays) options(f *flags, address string) (o client.SDLDial, err error) {
	u, err := client.CheckWithoutSWP(address)
	if err != nil {
		return o, &usageError{err.Error()}
	}
	for _, flag := range []struct {
		name string
		set  bool
	}{
		{"--policy", len(f.policy) > 0}, {"--chain", f.chain != ""}, {"--traceparent", f.traceparent != ""}, {"--tracestate", f.tracestate != ""}, {"--expect", f.expect != ""},
	} {
		if flag.set {
			return o, &usageError{flag.name + " has no effect over " + u.Scheme + "; leave it out, or use swp+tls or swp+quic"}
		}
	}
	if u.Scheme != "https" && u.Scheme != "wss" {
		for name, value := range map[string]string{"--identity": f.identity, "--cert": f.cert, "--key": f.key, "--ca": f.ca} {
			if value != "" {
				return o, &usageError{name + " has no effect over " + u.Scheme + ", which has no certificates; leave it out, or use https or wss"}
			}
		}
	} else if o.TLS, err = f.httpTLS(); err != nil {
		return o, err
	}
	if u.Scheme == "unix" && w.token != "" {
		return o, &usageError{"--token has no effect over unix, where the permissions of the socket say who may connect; leave it out"}
	}
	o.Token = w.token
	if strings.HasPrefix(w.token, "@") {
		octets, err := f.readInput(w.token)
		if err != nil {
			return o, err
		}
		o.Token = strings.TrimSpace(string(octets))
	}
	return o, nil
}

// httpTLS is the TLS of https and wss.
func (f *flags) httpTLS() (*tls.Config, error) {
	id := client.Identity{Cert: f.cert, Key: f.key, CA: f.ca}
	if (id.Cert == "") != (id.Key == "") {
		return nil, &usageError{"--cert and --key belong together: set both or neither"}
	}
	if f.identity != "" {
		found := devpki.Client(f.identity)
		if id.Cert == "" {
			id.Cert, id.Key = found.Cert, found.Key
		}
		if id.CA == "" {
			id.CA = found.CA
		}
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if id.Cert != "" {
		f.warnOfKey(id.Key)
		pair, err := tls.LoadX509KeyPair(id.Cert, id.Key)
		if err != nil {
			return nil, fmt.Errorf("certificate %s: %w", id.Cert, err)
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	if id.CA != "" {
		pem, err := os.ReadFile(id.CA)
		if err != nil {
			return nil, err
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, errors.New(id.CA + " has no certificates")
		}
	}
	return conf, nil
}
