package events

// Extension types of this profile.
const (
	ExtSubscription = 16 // name of a durable subscription
	ExtCursor       = 17 // uvarint; on SUBSCRIBE start after it, on EVT_BATCH the cursor of its last record
)
