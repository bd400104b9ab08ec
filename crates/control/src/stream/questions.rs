//! Questions that a server asks all who follow it, and what comes back until somebody has waited long enough.
//!
//! A question goes down once to everybody; answers come up in parts and are put together by node, within bounds: of
//! one answer, of all answers to a question, and of questions at a time. Who doesn't know questions, an older release,
//! skips them, and is among those who didn't answer.

use super::frame::framed;
use super::message::{AnswerPart, Asker, Question, QuestionId, ServerMessage};
use bytes::{Bytes, BytesMut};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// At a time.
pub(super) const QUESTIONS_MAX: usize = 4;
/// Of one node's answer.
pub const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Of all nodes' answers to a question.
const ANSWERS_BYTES_MAX: usize = 64 << 20;
/// Of one part, so that parts find room on a stream that others wait for too.
const PART_BYTES: usize = 16 << 10;

/// One node's answer to a question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeAnswer {
    pub node: Arc<str>,
    pub region: Arc<str>,
    /// Or why it has none.
    pub result: Result<Bytes, String>,
}

impl NodeAnswer {
    /// What goes up, in parts.
    pub(super) fn parts(&self, id: QuestionId) -> Vec<AnswerPart> {
        let (bytes, is_problem) = match &self.result {
            Ok(bytes) if bytes.len() <= ANSWER_BYTES_MAX => (bytes.clone(), false),
            Ok(_) => (Bytes::from_static(b"the answer is too long"), true),
            Err(problem) => {
                (Bytes::copy_from_slice(&problem.as_bytes()[..problem.len().min(PART_BYTES)]), true)
            }
        };
        let part = |bytes: Bytes, is_last: bool| AnswerPart {
            id,
            node: self.node.clone(),
            region: self.region.clone(),
            is_last,
            is_problem,
            bytes,
        };
        let count = bytes.len().div_ceil(PART_BYTES).max(1);
        let cut = |index: usize| {
            let end = bytes.len().min((index + 1) * PART_BYTES);
            part(bytes.slice(index * PART_BYTES..end), index + 1 == count)
        };
        (0..count).map(cut).collect()
    }
}

/// What came of a question.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Answers {
    pub answers: Vec<NodeAnswer>,
    /// Who was asked and said nothing in time.
    pub silent: Vec<Arc<str>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{QUESTIONS_MAX} other questions are being asked; try again in a second")]
pub struct TooManyQuestions;

#[derive(Debug, Default)]
pub(super) struct Questions {
    last_id: u64,
    open: BTreeMap<QuestionId, Open>,
}

#[derive(Debug)]
struct Open {
    /// That followers are sent it with.
    revision: u64,
    message: Bytes,
    awaited: BTreeSet<Arc<str>>,
    gathered: BTreeMap<Arc<str>, GatheredAnswers>,
    bytes: usize,
    /// Told when nobody is awaited any more.
    done: Option<oneshot::Sender<()>>,
}

#[derive(Debug)]
struct GatheredAnswers {
    region: Arc<str>,
    bytes: BytesMut,
    is_problem: bool,
    is_whole: bool,
}

/// What is asked, of whom, and until when.
#[derive(Debug)]
pub(super) struct QuestionRequest<'a> {
    pub(super) query: &'a str,
    pub(super) asker: Asker,
    pub(super) within: Duration,
    pub(super) of: BTreeSet<Arc<str>>,
}

impl Questions {
    /// `revision`: with which it goes down. The receiver hears when all have answered.
    pub(super) fn ask(
        &mut self,
        asking: QuestionRequest<'_>,
        revision: u64,
    ) -> Result<(QuestionId, oneshot::Receiver<()>), TooManyQuestions> {
        if self.open.len() >= QUESTIONS_MAX {
            return Err(TooManyQuestions);
        }
        self.last_id += 1;
        let id = QuestionId(self.last_id);
        let within_ms = u64::try_from(asking.within.as_millis()).unwrap_or(u64::MAX);
        let question = Question { id, within_ms, asker: asking.asker, query: asking.query.into() };
        let message = framed(|out| ServerMessage::Question(question).encode(out)).into();
        let (done, is_done) = oneshot::channel();
        let (gathered, bytes) = (BTreeMap::new(), 0);
        let mut open = Open { revision, message, awaited: asking.of, gathered, bytes, done: Some(done) };
        open.complete_if_done();
        self.open.insert(id, open);
        Ok((id, is_done))
    }

    /// What follows a revision goes to who was sent all up to it.
    pub(super) fn after(&self, revision: u64) -> impl Iterator<Item = (u64, Bytes)> {
        let newer = self.open.values().filter(move |open| open.revision > revision);
        newer.map(|open| (open.revision, open.message.clone()))
    }

    /// Handles a part of an answer. Parts of questions that are over are dropped.
    pub(super) fn receive(&mut self, part: AnswerPart) {
        let Some(open) = self.open.get_mut(&part.id) else { return };
        let gathered = open.gathered.entry(part.node.clone()).or_insert_with(|| GatheredAnswers {
            region: part.region.clone(),
            bytes: BytesMut::new(),
            is_problem: part.is_problem,
            is_whole: false,
        });
        if gathered.is_whole {
            return;
        }
        let length = part.bytes.len();
        if gathered.bytes.len() + length > ANSWER_BYTES_MAX || open.bytes + length > ANSWERS_BYTES_MAX {
            *gathered = GatheredAnswers {
                region: part.region,
                bytes: BytesMut::from(&b"the answers are too long: ask for less"[..]),
                is_problem: true,
                is_whole: true,
            };
        } else {
            open.bytes += length;
            gathered.bytes.extend_from_slice(&part.bytes);
            gathered.is_whole = part.is_last;
        }
        if gathered.is_whole {
            open.awaited.remove(&part.node);
            open.complete_if_done();
        }
    }

    /// What came until now; later answers are nobody's.
    pub(super) fn take(&mut self, id: QuestionId) -> Answers {
        let Some(open) = self.open.remove(&id) else { return Answers::default() };
        let whole = open.gathered.into_iter().filter(|(_, gathered)| gathered.is_whole);
        let answer = |(node, gathered): (Arc<str>, GatheredAnswers)| {
            let bytes = gathered.bytes.freeze();
            let result = match gathered.is_problem {
                true => Err(String::from_utf8_lossy(&bytes).into_owned()),
                false => Ok(bytes),
            };
            NodeAnswer { node, region: gathered.region, result }
        };
        Answers { answers: whole.map(answer).collect(), silent: open.awaited.into_iter().collect() }
    }
}

impl Open {
    fn complete_if_done(&mut self) {
        if self.awaited.is_empty()
            && let Some(done) = self.done.take()
        {
            // Who asked may have given up.
            let _ = done.send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asking(of: &[&str]) -> QuestionRequest<'static> {
        QuestionRequest {
            query: "rule=a",
            asker: Asker::Operator,
            within: Duration::from_secs(2),
            of: of.iter().map(|name| Arc::from(*name)).collect(),
        }
    }

    fn answer(node: &str, result: Result<&[u8], &str>) -> NodeAnswer {
        let result = result.map(Bytes::copy_from_slice).map_err(str::to_owned);
        NodeAnswer { node: node.into(), region: "eu".into(), result }
    }

    #[test]
    fn answers_come_together_from_their_parts_and_the_silent_are_named() {
        let mut questions = Questions::default();
        let (id, mut is_done) = questions.ask(asking(&["a", "b", "c"]), 7).unwrap();
        let long: Vec<u8> = (0..50_000u32).map(|number| number.to_le_bytes()[0]).collect();
        let of_a = answer("a", Ok(&long));
        let mut of_b = answer("b", Err("no log")).parts(id);
        let mut parts = of_a.parts(id);
        assert!(parts.len() > 2);
        parts.insert(1, of_b.pop().unwrap());
        let last = parts.pop().unwrap();
        parts.into_iter().for_each(|part| questions.receive(part));
        assert!(is_done.try_recv().is_err());
        questions.receive(last.clone());
        assert!(is_done.try_recv().is_err(), "c is still awaited");
        let answers = questions.take(id);
        assert_eq!(answers.answers, [of_a, answer("b", Err("no log"))]);
        assert_eq!(answers.silent, ["c".into()]);
        questions.receive(last);
        assert_eq!(questions.take(id), Answers::default(), "too late");
    }

    #[test]
    fn who_asked_is_told_when_all_have_answered() {
        let mut questions = Questions::default();
        let (id, mut is_done) = questions.ask(asking(&["a"]), 1).unwrap();
        questions.receive(answer("stranger", Ok(b"x")).parts(id).remove(0));
        assert!(is_done.try_recv().is_err());
        questions.receive(answer("a", Ok(b"")).parts(id).remove(0));
        assert!(is_done.try_recv().is_ok());
        let (_, mut nobody) = questions.ask(asking(&[]), 2).unwrap();
        assert!(nobody.try_recv().is_ok(), "nobody was asked");
    }

    #[test]
    fn answers_and_questions_are_bounded() {
        let mut questions = Questions::default();
        let (id, _) = questions.ask(asking(&["a"]), 1).unwrap();
        for _ in 0..ANSWER_BYTES_MAX / PART_BYTES + 1 {
            let bytes = vec![0; PART_BYTES].into();
            let (node, region) = ("a".into(), "eu".into());
            questions.receive(AnswerPart { id, node, region, is_last: false, is_problem: false, bytes });
        }
        let result = questions.take(id).answers.remove(0).result;
        assert!(result.unwrap_err().contains("too long"));
        let _open: Vec<_> = (0..QUESTIONS_MAX).map(|_| questions.ask(asking(&["a"]), 1).unwrap()).collect();
        assert_eq!(questions.ask(asking(&["a"]), 1).unwrap_err(), TooManyQuestions);
    }
}
