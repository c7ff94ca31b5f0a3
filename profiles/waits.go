package profiles

import "time"

// Waits that contain each other. An inner wait is well below the outer one, so that the outer
// side gets an answer that names the slow part, and not none. TestInnerWaitsAreBelowOuterOnes
// of the root has the pairs, and docs/architecture.md their table.
const (
	AnswerWait = 10 * time.Second // of swp-client for each answer, and of a page of the HTTP catalog
	PageWait   = 6 * time.Second  // of the page of an operator, which takes AnswerWait at most, for the tools of a partner
	ListWait   = 6 * time.Second  // of an endpoint for the servers and partners whose tools it lists
	CardWait   = 6 * time.Second  // of an endpoint for the card of an A2A agent at a URL
	LinkWait   = 5 * time.Second  // of a message for the session of its partner
	BehindWait = 3 * time.Second  // of an endpoint for its servers and partners when a partner asks for a list
	TurnWait   = time.Second      // for which a server is read before the next one is read beside it

	HandlerWait = 30 * time.Second // of an endpoint for a handler
	WriteWait   = 10 * time.Second // of an endpoint for a peer to read a frame
	LargeWait   = 3 * time.Minute  // the same after a large frame, if the peer may wait for room for it
	RoomWait    = 2 * time.Minute  // of an endpoint for room for a large frame

	ReadWait     = time.Minute      // of the reader of tools for an answer of their server, which may have to start
	ProbeWait    = 40 * time.Second // of a bridge for the era of an MCP server; a first start by npx takes half of it
	QuestionWait = 20 * time.Second // of a bridge for each question about the era of a server at a URL
	DiscoverWait = 5 * time.Second  // for the first of them, before a command is asked the second one

	WorkWait   = 10 * time.Minute   // of a call for the next message of its server, unless its owner says otherwise
	UnreadWait = time.Minute        // of a server for the client of its only session to read
	SharedWait = time.Second        // the same of a server with several clients
	MostWork   = 7 * 24 * time.Hour // the most that an owner may say
	BehindWork = 2 * MostWork       // of an endpoint for a partner whose server does the work
)

// WholeWork returns how long a call may take altogether whose server may be silent for so long.
func WholeWork(silence time.Duration) time.Duration {
	if silence > MostWork {
		return silence
	}
	return max(time.Hour, 6*silence)
}
