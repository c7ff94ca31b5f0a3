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
	"github.com/slimwire/swp/slip/ucr"
)

func newSLIPSend(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "send ADDR MESSAGE|-",
		Short: "Send a message to an agent",
		Long: `Send a message of nSLIP, which begins with "@", or of SLIP v1; - is standard input. The
message must be from an agent that this identity may use.

A delivered message has no answer of the endpoint: this ends when the endpoint has
forwarded it, or has put it into its relay. Another endpoint on the way may refuse it
later, and an agent that speaks SLIP over A2A may answer; --wait is how long to wait for
that. A line of SLIP v1 that comes back is printed, unless the sending agent is connected
(slip listen), which then gets it. The exit code is 1 if the message was refused.

With --json a JSON object is printed: {"msg_id":"…","ok":true}, with "answer" if a line
came back, or with "ok":false the members "error", the error class of the specification,
and "message", the text.`,
		Example: `  swp-client slip send swp+tls://127.0.0.1:7777 'SLIP v1 planner reviewer RequestReview auth_module'
  swp-client slip send swp+tls://127.0.0.1:7777 '@a3|f0|c3|S0|d1|T1|kg#' --handle k=task:3fa94c01
  swp-client slip send swp+tls://127.0.0.1:7777 'SLIP v1 planner billing RequestReview invoice' --wait 30s
  swp-client slip encode message.json | swp-client slip send swp+quic://127.0.0.1:7777 - --wait 0`,
	}
	var handles []string
	cmd.Flags().StringArrayVar(&handles, "handle", nil, "meaning of an nSLIP handle as `SLOT=KIND:ID`: slot g, k, p or r, kind task, artifact or state (repeatable)")
	file := cmd.Flags().String("ucr", "", "`file` with the anchors of this installation, for an answer")
	wait := cmd.Flags().Duration("wait", time.Second, "time to wait for an answer, and for refusals of other endpoints")
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
		anchors, err := readTable(*file)
		if err != nil {
			return err
		}
		return f.sendSLIP(cmd.Context(), args[0], m, anchors, *wait)
	}
	return cmd
}

// fate is what becomes of a message: it is refused, or a line came on the same connection.
type fate struct {
	msgID  string // of a refused message
	err    *profiles.PeerError
	answer string
}

func (f *flags) sendSLIP(ctx context.Context, address string, m client.SLIPMessage, anchors *ucr.Table, wait time.Duration) error {
	fates := make(chan fate, 1) // one message is sent
	set, err := client.NewSLIP(client.SLIPOptions{
		Anchors: anchors,
		Refused: func(id []byte, err *profiles.PeerError) {
			select {
			case fates <- fate{msgID: string(id), err: err}:
			default:
			}
		},
		Heard: func(m client.SLIPMessage) error {
			select {
			case fates <- fate{answer: m.Text}:
				return nil
			default:
				return slip.Refuse(slip.CodeUnknownDestination, "the agent has left")
			}
		},
	})
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
	var known fate
	err = f.sent(err, func(confirmed bool) error {
		known = awaitFate(ctx, fates, string(id), wait)
		switch {
		case f.asJSON:
			return f.printSent(id, confirmed, known)
		case known.answer != "":
			_, err := fmt.Fprintln(f.out, visible(known.answer))
			return err
		}
		return nil
	})
	if known.err != nil {
		return f.refusedAdvice(known.err)
	}
	return err
}

// awaitFate returns what becomes of a message, nothing if nobody says so in time.
func awaitFate(ctx context.Context, fates <-chan fate, msgID string, wait time.Duration) fate {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		select {
		case u := <-fates: // what is known already counts, however short the wait
			if u.err == nil || u.msgID == msgID {
				return u
			}
			continue
		default:
		}
		select {
		case u := <-fates:
			if u.err == nil || u.msgID == msgID {
				return u
			}
		case <-ctx.Done():
			return fate{}
		}
	}
}

func (f *flags) printSent(msgID []byte, confirmed bool, known fate) error {
	why := known.err
	sent := struct {
		MsgID     string `json:"msg_id"`
		OK        bool   `json:"ok"`
		Confirmed bool   `json:"confirmed"`
		Answer    string `json:"answer,omitempty"`
		Error     string `json:"error,omitempty"`
		Message   string `json:"message,omitempty"`
	}{MsgID: hex.EncodeToString(msgID), OK: why == nil, Confirmed: confirmed && why == nil, Answer: known.answer}
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
	case slip.CodeLanguage:
		err.Do = "The agent speaks SLIP over A2A: send it a line of SLIP v1."
	case slip.CodeUnanswered:
		err.Do = "The agent has the message; ask it over A2A to get all of its answer: " + f.commandLine("a2a", "http", f.address())
	case slip.CodeUnknownDestination:
		err.Do = "The agent may be away; who is there is shown by: " + f.commandLine("agents", "ls", f.address())
	}
	return err
}
