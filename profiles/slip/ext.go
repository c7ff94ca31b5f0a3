package slip

// Extension types of this profile.
const (
	ExtUCRHash = 16 // ucrHash of the anchors that the sender knows
	ExtHandle  = 17 // what a handle stands for, "k=task:id"; repeatable
)
