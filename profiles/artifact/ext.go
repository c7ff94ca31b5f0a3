package artifact

// Extension types of this profile.
const (
	ExtDurable = 16 // uvarint, on ART_ACK how many octets of the artifact are durable
)
