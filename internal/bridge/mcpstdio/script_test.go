package mcpstdio_test

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain makes the test binary its own scripted child: with SCRIPT in the
// environment it speaks MCP on its standard streams instead of running tests.
func TestMain(m *testing.M) {
	if mode, ok := os.LookupEnv("SCRIPT"); ok {
		os.Exit(script(mode))
	}
	goleak.VerifyTestMain(m)
}

// complaint is a line of standard error.
var complaint = strings.Repeat("complaint ", 100)

// script is a server that does, well or badly, what the requests tell it to.
// mode is a list of words that say how it starts.
func script(mode string) int {
	has := func(word string) bool { return strings.Contains(" "+mode+" ", " "+word+" ") }
	switch {
	case has("exit"):
		fmt.Fprintln(os.Stderr, "token=hunter2\nFATAL: API_KEY is not set")
		return 3
	case has("leave"):
		return 0
	case has("sleep"):
		select {}
	case has("deaf"):
		select {} // reads nothing
	}
	if has("stubborn") {
		signal.Ignore(syscall.SIGTERM)
	}
	s := &scripted{
		in: bufio.NewReaderSize(os.Stdin, 1<<20), out: os.Stdout,
		modern: !has("legacy"), legacy: !has("modern"), mute: has("mute"), once: has("once"),
	}
	err := s.serve()
	if has("stubborn") {
		select {}
	}
	if err != nil && err != io.EOF {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// burstLine is a notification of the burst of a request.
const burstLine = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":%d}}`

type scripted struct {
	in   *bufio.Reader
	out  io.Writer
	held []string // answers kept back

	counted, tasks, asked int
	// what it answers to those who want to know its era
	modern, legacy, mute bool
	once                 bool // it answers server/discover once
}

type command struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

func (s *scripted) serve() error {
	for {
		line, err := s.in.ReadBytes('\n')
		if err != nil {
			return err
		}
		var c command
		if err := json.Unmarshal(line, &c); err != nil {
			return err
		}
		s.do(line[:len(line)-1], c)
	}
}

func (s *scripted) say(line string) { _, _ = io.WriteString(s.out, line+"\n") }

func (s *scripted) answer(c command, result any) {
	b, err := json.Marshal(result)
	if err != nil {
		panic(err)
	}
	s.say(`{"jsonrpc":"2.0","id":` + string(c.ID) + `,"result":` + string(b) + `}`)
}

// text is the params as a string, or their member "text".
func (c command) text() string {
	var text string
	if json.Unmarshal(c.Params, &text) != nil {
		var o struct {
			Text string `json:"text"`
		}
		_ = json.Unmarshal(c.Params, &o)
		text = o.Text
	}
	return text
}

func (s *scripted) do(line []byte, c command) {
	switch c.Method {
	case "server/discover":
		s.asked++
		switch {
		case s.mute || s.once && s.asked > 1:
		case s.modern:
			s.answer(c, map[string]any{"supportedVersions": []string{"2026-07-28"}})
		default:
			s.say(`{"jsonrpc":"2.0","id":` + string(c.ID) + `,"error":{"code":-32601,"message":"no"}}`)
		}
	case "initialize":
		if s.legacy {
			s.answer(c, map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{}})
		} else {
			s.say(`{"jsonrpc":"2.0","id":` + string(c.ID) + `,"error":{"code":-32022,"message":"no"}}`)
		}
	case "hex": // what was received
		s.answer(c, hex.EncodeToString(line))
	case "say": // these octets, and nothing of its own
		s.say(c.text())
	case "burst", "notifications/burst": // so many notifications, then an answer
		n, _ := strconv.Atoi(c.text())
		w := bufio.NewWriter(s.out)
		for i := range n {
			line := burstLine
			if len(c.ID) == 0 {
				line = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":%d}}`
			}
			_, _ = fmt.Fprintf(w, line+"\n", i)
		}
		_ = w.Flush()
		if len(c.ID) > 0 {
			s.answer(c, n)
		}
	case "hold":
		s.held = append(s.held, c.text())
	case "release", "notifications/release": // what was held, newest first, then an answer
		for _, line := range slices.Backward(s.held) {
			s.say(line)
		}
		s.held = nil
		if len(c.ID) > 0 {
			s.answer(c, nil)
		}
	case "subscriptions/listen": // has no end
		s.say(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + string(c.ID) + `}}}`)
	case "stuck":
		time.Sleep(time.Hour)
	case "silent", "notifications/cancelled":
		if c.Method != "silent" {
			s.held = append(s.held, string(line))
		}
	case "held":
		s.answer(c, s.held)
	case "crash":
		os.Exit(4)
	case "pid":
		s.answer(c, os.Getpid())
	case "count": // how many of these there were
		s.counted++
		s.answer(c, s.counted)
	case "environ":
		s.answer(c, os.Environ())
	case "args":
		s.answer(c, os.Args[1:])
	case "huge": // a line of 64 MiB
		chunk := bytes.Repeat([]byte("a"), 1<<20)
		for range 64 {
			_, _ = s.out.Write(chunk)
		}
		s.say("")
	case "noise":
		_, _ = s.out.Write([]byte("\x00\xff\xfe binary\nlog: line\n{\"half\":\n[1,2]\n\n{}\n"))
		s.answer(c, "after the noise")
	case "complain": // 100 MiB of standard error, one line of 1 MiB among them
		long := bytes.Repeat([]byte("e"), 1<<20)
		_, _ = os.Stderr.Write(append(long, '\n'))
		chunk := bytes.Repeat([]byte(complaint+"\n"), 1<<20/(len(complaint)+1))
		for range 100 {
			_, _ = os.Stderr.Write(chunk)
		}
		s.answer(c, "done")
	case "fork": // a grandchild in the same group that holds the streams open
		cmd := exec.Command(os.Args[0])
		cmd.Env = []string{"SCRIPT=sleep"}
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Start(); err != nil {
			panic(err)
		}
		s.answer(c, cmd.Process.Pid)
	case "tools/call": // a task that works until its caller ends it
		var tool struct{ Name string }
		_ = json.Unmarshal(c.Params, &tool)
		switch tool.Name {
		case "silent":
			return
		case "stuck":
			time.Sleep(time.Hour)
		}
		s.tasks++
		id := fmt.Sprintf("%d-%d", os.Getpid(), s.tasks)
		task := map[string]any{"taskId": id, "status": "working", "ttlMs": nil}
		if !s.modern {
			s.answer(c, map[string]any{"task": task})
			break
		}
		task["resultType"] = "task"
		s.answer(c, task)
	case "tasks/get", "tasks/cancel":
		var about struct{ TaskID string }
		_ = json.Unmarshal(c.Params, &about)
		status := "working"
		if c.Method == "tasks/cancel" {
			status = "cancelled"
		}
		if !strings.HasPrefix(about.TaskID, fmt.Sprint(os.Getpid(), "-")) {
			s.say(`{"jsonrpc":"2.0","id":` + string(c.ID) + `,"error":{"code":-32602,"message":"unknown task"}}`)
			break
		}
		s.answer(c, map[string]any{"resultType": "complete", "taskId": about.TaskID, "status": status})
	case "ask": // a question to the client; its answer, as received, is the answer
		s.say(c.text())
		reply, _ := s.in.ReadBytes('\n')
		s.answer(c, hex.EncodeToString(bytes.TrimSuffix(reply, []byte("\n"))))
	default:
		if len(c.ID) > 0 {
			s.answer(c, map[string]any{})
		}
	}
}
