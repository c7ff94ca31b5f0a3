package relay

// Extension types of this profile.
const (
	ExtPublisher = 16 // identity of the publisher, on a delivery
)
