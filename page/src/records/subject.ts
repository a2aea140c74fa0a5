/** The topic that an address of the view names, and the partition if it names one: `orders/3`. */
export interface TopicPart {
  topic: string;
  partition: number | null;
}

/** Returns the topic and the partition of a subject. The name of a topic has no slash. */
export function topicPartOf(subject: string): TopicPart {
  const [topic = "", partition = ""] = subject.split("/", 2);
  return { topic, partition: /^\d{1,9}$/.test(partition) ? Number(partition) : null };
}
