//go:build unix

// Clusterdemo has three swpd serve one endpoint from PostgreSQL. Two partners, an agent, a subscriber,
// consumers and MCP clients work with it, while nodes and the database end and come back. Each client
// numbers its work; at the end the acknowledged numbers are compared with those that have arrived. With
// -previous the nodes of another version are replaced one after the other instead.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	swpd := flag.String("swpd", "bin/swpd", "`program` of the nodes and partners")
	previous := flag.String("previous", "", "`program` of the nodes at the beginning; they are upgraded to that of -swpd, one after the other")
	calm := flag.Duration("calm", 3*time.Second, "time of undisturbed work before each event")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s := &scene{out: os.Stdout, swpd: *swpd, calm: *calm, settle: mostTime, began: time.Now()}
	plot := s.faults
	if *previous != "" {
		s.first, s.strict, plot = *previous, true, s.upgrade
	}
	if err := run(ctx, s, plot); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "clusterdemo:", err)
		os.Exit(1)
	}
}

// run plays a scene in a directory, which stays after an error.
func run(ctx context.Context, s *scene, plot func(context.Context) error) (err error) {
	if s.dir, err = os.MkdirTemp("", "clusterdemo"); err != nil {
		return err
	}
	if err := s.play(ctx, plot); err != nil {
		return fmt.Errorf("%w\nlogs are in %s", err, s.dir)
	}
	return os.RemoveAll(s.dir)
}
