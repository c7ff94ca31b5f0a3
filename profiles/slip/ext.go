package slip

// Extension types of this profile.
const (
	ExtUCRHash = 16 // ucrHash of the anchors of the sender
	ExtHandle  = 17 // meaning of a handle, "k=task:id"; repeatable
)
