package config

// Access says who may do what. Without a rule that fits, everything is denied.
type Access struct {
	Rules  []AccessRule `yaml:"rules"`
	Agents []AgentRule  `yaml:"agents"`
	Deny   []string     `yaml:"deny"` // identities that are not let in at all, as patterns
}

// AccessRule allows what all of its patterns match. A list that is empty
// matches everything; in a pattern * stands for any characters but "/", ** for
// any.
type AccessRule struct {
	Identity  List `yaml:"identity"` // required
	Profile   List `yaml:"profile"`
	Operation List `yaml:"operation"`
	Name      List `yaml:"name"`
}

// AgentRule says which agent_ids an identity may use.
type AgentRule struct {
	Identity List `yaml:"identity"`
	AgentIDs List `yaml:"agent_ids"`
}

// List is a list of strings that may be written as a single one.
type List []string
