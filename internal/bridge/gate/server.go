package gate

import (
	"io"
	"log"
	"net/http"
	"time"
)

// Bounds of a Server that callers meet before they are let in.
const (
	headTime = 5 * time.Second // for the head of a request, and for the TLS handshake
	bodyTime = 5 * time.Second // for a body until somebody reads it
	idleTime = 2 * time.Minute // between two requests of a connection
	maxHead  = 64 << 10        // octets of the head of a request; the rest gets 431
)

// Server returns a server of what next serves, for whom the Gate lets in. It ends
// connections whose requests come too slowly: the head has 5 s, and so has a body for
// which next sets no deadline of its own. Who reads a body sets one, and lifts it
// afterwards: what is still there then ends the request.
func (g *Gate) Server(next http.Handler) *http.Server {
	return &http.Server{
		Handler:           g.Handler(next),
		ReadHeaderTimeout: headTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    maxHead,
		ErrorLog:          log.New(io.Discard, "", 0), // what scanners do is no news
	}
}
