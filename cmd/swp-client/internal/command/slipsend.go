package command

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/slip"
)

func newSLIPSend(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "send ADDR MESSAGE|-",
		Short: "Send a message to an agent",
		Long: `Send a message of nSLIP, which begins with "@", or of SLIP v1; - is standard input. The
message must be from an agent that this identity may use.

A delivered message has no answer: this ends when the endpoint has forwarded it, or has
put it into its relay. Another endpoint on the way may refuse it later; --wait is how
long to wait for that. The exit code is 1 if the message was refused.

With --json a JSON object is printed: {"msg_id":"…","ok":true}, or with "ok":false the
members "error", the error class of the specification, and "message", the text.`,
		Example: `  swp-client slip send swp+tls://127.0.0.1:7777 'SLIP v1 planner reviewer RequestReview auth_module'
  swp-client slip send swp+tls://127.0.0.1:7777 '@a3|f0|c3|S0|d1|T1|kg#' --handle k=task:3fa94c01
  swp-client slip encode message.json | swp-client slip send swp+quic://127.0.0.1:7777 - --wait 0`,
	}
	var handles []string
	cmd.Flags().StringArrayVar(&handles, "handle", nil, "meaning of an nSLIP handle as `SLOT=KIND:ID`: slot g, k, p or r, kind task, artifact or state (repeatable)")
	wait := cmd.Flags().Duration("wait", time.Second, "time to wait for refusals of other endpoints")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *wait < 0 {
			return &usageError{"--wait is at least 0"}
		}
		m := client.SLIPMessage{Text: args[1]}
		if m.Text == "-" {
			octets, err := io.ReadAll(io.LimitReader(f.in, maxLine))
			if err != nil {
				return err
			}
			m.Text = string(octets)
		}
		for _, text := range handles {
			meaning, ok := slip.ParseMeaning(text)
			if !ok {
				return &usageError{fmt.Sprintf("--handle %.80q: want something like k=task:3fa94c01", text)}
			}
			m.Handles = append(m.Handles, meaning)
		}
		return f.sendSLIP(cmd.Context(), args[0], m, *wait)
	}
	return cmd
}

// undelivered is the fate of a message that was refused.
type undelivered struct {
	msgID string
	err   *profiles.PeerError
}

func (f *flags) sendSLIP(ctx context.Context, address string, m client.SLIPMessage, wait time.Duration) error {
	refused := make(chan undelivered, 1) // one message is sent
	set, err := client.NewSLIP(client.SLIPOptions{Refused: func(id []byte, err *profiles.PeerError) {
		select {
		case refused <- undelivered{string(id), err}:
		default:
		}
	}})
	if err != nil {
		return err
	}
	defer set.Close()
	c, err := f.dialAs(ctx, address, set)
	if err != nil {
		return err
	}
	defer c.Close()
	sending, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	id, err := c.SendSLIP(sending, m)
	var why *profiles.PeerError
	err = f.sent(err, func(confirmed bool) error {
		why = awaitRefusal(ctx, refused, string(id), wait)
		if f.asJSON {
			return f.printSent(id, confirmed, why)
		}
		return nil
	})
	if why != nil {
		return f.refusedAdvice(why)
	}
	return err
}

// awaitRefusal returns why a message is refused, nil if nobody says so in time.
func awaitRefusal(ctx context.Context, refused <-chan undelivered, msgID string, wait time.Duration) *profiles.PeerError {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		select {
		case u := <-refused: // what is known already counts, however short the wait
			if u.msgID == msgID {
				return u.err
			}
			continue
		default:
		}
		select {
		case u := <-refused:
			if u.msgID == msgID {
				return u.err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

func (f *flags) printSent(msgID []byte, confirmed bool, why *profiles.PeerError) error {
	sent := struct {
		MsgID     string `json:"msg_id"`
		OK        bool   `json:"ok"`
		Confirmed bool   `json:"confirmed"`
		Error     string `json:"error,omitempty"`
		Message   string `json:"message,omitempty"`
	}{MsgID: hex.EncodeToString(msgID), OK: why == nil, Confirmed: confirmed && why == nil}
	if why != nil {
		sent.Error, sent.Message = why.Code, why.Message
	}
	return f.printJSON(sent)
}

// refusedAdvice says what to do about a refusal.
func (f *flags) refusedAdvice(why *profiles.PeerError) error {
	text := fmt.Sprintf("refused: %s: %s", visible(why.Code), visible(strings.TrimPrefix(why.Message, "slip: ")))
	err := &client.Explained{Err: &client.AnswerError{Text: text, Code: why.Code}}
	switch why.Code {
	case slip.CodeDenied:
		err.Do = "The sending agent must be one that this identity may use, and no other identity's there (access.agents); access.rules list the agents that it may write to."
	case slip.CodeNoMapping:
		err.Do = "The endpoint knows the agents of nSLIP by slip.agents of its configuration."
	case slip.CodeUnknownDestination:
		err.Do = "The agent may be away; who is there is shown by: " + f.commandLine("agents", "ls", f.address())
	}
	return err
}
