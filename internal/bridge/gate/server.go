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

// Server returns a server of next behind the Gate. It closes connections whose
// requests arrive too slowly: 5 s for the head, and for a body for which next sets no
// other deadline. A handler that reads a body sets one, and lifts it afterwards:
// unread octets then end the request.
func (g *Gate) Server(next http.Handler) *http.Server {
	return &http.Server{
		Handler:           g.Handler(next),
		ReadHeaderTimeout: headTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    maxHead,
		ErrorLog:          log.New(io.Discard, "", 0), // scanners would flood the log
	}
}
