//! The parser's place among the tokens: what is there, and what should be.

use super::{Named, ParseError, Parser};
use crate::DimId;
use crate::text::Position;
use crate::text::token::Token;

impl<'a> Parser<'a> {
    pub(super) fn dim(&mut self) -> Result<DimId, ParseError> {
        let place = self.place();
        let word = self.word("a dim")?;
        match self.names.get(word) {
            Some(&Named::Dim(dim)) => Ok(dim),
            _ => Err(ParseError::at(place, format!("`{word}` is no dim of this kernel"))),
        }
    }

    pub(super) fn separator(&mut self, end: &'static str) -> Result<(), ParseError> {
        if self.takes(",") || self.is_sign(end) {
            return Ok(());
        }
        Err(self.expected(&format!("`,` or `{end}`")))
    }

    pub(super) fn word(&mut self, what: &str) -> Result<&'a str, ParseError> {
        match self.peek() {
            Token::Word(word) => {
                self.at += 1;
                Ok(word)
            }
            _ => Err(self.expected(what)),
        }
    }

    pub(super) fn keyword(&mut self, word: &str) -> Result<(), ParseError> {
        if self.takes_word(word) { Ok(()) } else { Err(self.expected(&format!("`{word}`"))) }
    }

    pub(super) fn takes_word(&mut self, word: &str) -> bool {
        let is_it = self.peek() == Token::Word(word);
        self.at += usize::from(is_it);
        is_it
    }

    pub(super) fn is_sign(&self, sign: &str) -> bool {
        matches!(self.peek(), Token::Sign(found) if found == sign)
    }

    pub(super) fn takes(&mut self, sign: &str) -> bool {
        let is_it = self.is_sign(sign);
        self.at += usize::from(is_it);
        is_it
    }

    pub(super) fn sign(&mut self, sign: &str) -> Result<(), ParseError> {
        if self.takes(sign) { Ok(()) } else { Err(self.expected(&format!("`{sign}`"))) }
    }

    pub(super) fn newline(&mut self) -> Result<(), ParseError> {
        match self.peek() {
            Token::Newline => {
                self.at += 1;
                Ok(())
            }
            _ => Err(self.expected("the end of the line")),
        }
    }

    pub(super) fn skip_newlines(&mut self) {
        while self.peek() == Token::Newline {
            self.at += 1;
        }
    }

    pub(super) fn peek(&self) -> Token<'a> {
        self.spots[self.at.min(self.spots.len() - 1)].token.clone()
    }

    pub(super) fn place(&self) -> Position {
        self.spots[self.at.min(self.spots.len() - 1)].place
    }

    pub(super) fn place_before(&self) -> Position {
        self.spots[self.at.clamp(1, self.spots.len()) - 1].place
    }

    pub(super) fn expected(&self, what: &str) -> ParseError {
        let found = match self.peek() {
            Token::Word(text) | Token::Number(text) => format!("`{text}`"),
            Token::Sign(sign) => format!("`{sign}`"),
            Token::Newline => "the end of the line".to_owned(),
            Token::End => "the end of the text".to_owned(),
        };
        ParseError::at(self.place(), format!("here should be {what}, not {found}"))
    }
}
